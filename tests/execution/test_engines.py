"""What the stubs of Horovod, DeepSpeed and apex make of a script: its events and its loss terms."""

from __future__ import annotations

from pathlib import Path

from tests.execution.scripts import counts_steps, divisor, lines, one, run, sharded_by, term, update

HOROVOD = """
import horovod.torch as hvd
hvd.init()
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1 * hvd.size())
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(), ARGUMENTS)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)
data = pairs()
sampler = torch.utils.data.distributed.DistributedSampler(data, num_replicas=hvd.size(), rank=hvd.rank())
for x, y in DataLoader(data, batch_size=4, sampler=sampler):
    F.cross_entropy(model(x), y).backward()
    optimizer.step()
    mean = hvd.allreduce(torch.ones(1), name="x")
"""


def test_horovod_averages_and_copies_nothing(tmp_path: Path) -> None:
    found = run(tmp_path, HOROVOD.replace("ARGUMENTS", ""))
    wrap = one(found, "wrap")
    assert (wrap.how, wrap.broadcasts, wrap.averages) == ("Horovod", False, True)
    assert wrap.subject is one(found, "optimizer").owners[0]
    assert all(event.order > wrap.order for event in found.of_kind("broadcast weights"))
    assert found.of_kind("broadcast weights")
    assert one(found, "collective").op == "avg"
    assert update(found).summed == 0
    assert not found.unknowns


def test_horovod_sums_when_told_to(tmp_path: Path) -> None:
    assert one(run(tmp_path, HOROVOD.replace("ARGUMENTS", "op=hvd.Sum")), "wrap").averages is False


def test_a_gradient_takes_its_reduced_value_in_place(tmp_path: Path) -> None:
    for written in ("p.grad = reduced", "p.grad.copy_(reduced)"):
        by_hand = f"for p in model.parameters():\n        reduced = hvd.allreduce(p.grad)\n        {written}"
        found = run(
            tmp_path,
            f"""
import horovod.torch as hvd
hvd.init()
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader(pairs(), batch_size=4):
    F.cross_entropy(model(x), y).backward()
    {by_hand}
    optimizer.step()
""",
        )
        (only,) = found.updates
        assert one(found, "reduce gradients").op == "avg"
        assert only.summed == 0


def test_deepspeed_divides_by_its_configuration(tmp_path: Path) -> None:
    found = run(
        tmp_path,
        """
        import deepspeed
        net = nn.Linear(4, 2)
        config = {"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2}
        engine, optimizer, loader, _ = deepspeed.initialize(
            model=net, model_parameters=net.parameters(), training_data=pairs(), config=config
        )
        for x, y in loader:
            engine.backward(F.cross_entropy(engine(x), y))
            engine.step()
        """,
    )
    assert (one(found, "wrap").how, one(found, "wrap").broadcasts) == ("DeepSpeed", True)
    assert sharded_by(found) == ["DeepSpeed"]
    assert counts_steps(update(found).step)
    assert divisor(found) in lines(found, "gradient_accumulation_steps")


def test_apex(tmp_path: Path) -> None:
    found = run(
        tmp_path,
        """
        import torch.distributed as dist
        from apex import amp
        from apex.optimizers import FusedAdam
        from apex.parallel import DistributedDataParallel, convert_syncbn_model
        dist.init_process_group()
        model = convert_syncbn_model(nn.Linear(4, 2))
        optimizer = FusedAdam(model.parameters())
        model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
        model = DistributedDataParallel(model)
        for x, y in DataLoader(pairs(), batch_size=4):
            with amp.scale_loss(F.cross_entropy(model(x), y), optimizer) as scaled:
                scaled.backward()
            optimizer.step()
        """,
    )
    assert one(found, "wrap").how == "apex DDP"
    assert one(found, "sync batchnorm")
    assert term(found).place.is_ratio
