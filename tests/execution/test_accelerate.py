"""What the stub of Accelerate makes of a script: its events and its loss terms."""

from __future__ import annotations

from pathlib import Path

from dpcheck.execution import TrainingRun
from dpcheck.execution.facts import SourceKind
from tests.execution.programs import RANK, SHOW, WORLD, shown
from tests.execution.scripts import (
    counts_steps,
    divisor,
    is_mean_of_uneven,
    line,
    lines,
    names,
    one,
    run,
    sharded_by,
    term,
    update,
)

ACCELERATED = """
from accelerate import Accelerator
accelerator = Accelerator(ARGUMENTS)
model = Tagger()
optimizer = torch.optim.AdamW(model.parameters())
loader = DataLoader(Tagged(), batch_size=4, shuffle=True)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for epoch in range(3):
    for ids, labels in loader:
        CONTEXT
            loss = F.cross_entropy(model(ids).flatten(0, 1), labels.flatten())  # mean
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
"""


def accelerated(root: Path, arguments: str = "", context: str = "if True:") -> TrainingRun:
    return run(root, ACCELERATED.replace("ARGUMENTS", arguments).replace("CONTEXT", context))


def test_accelerate_wraps_and_shards(tmp_path: Path) -> None:
    found = accelerated(tmp_path)
    assert one(found, "group")
    assert (one(found, "wrap").how, one(found, "wrap").broadcasts, one(found, "wrap").averages) == ("DDP", True, True)
    assert sharded_by(found) == ["accelerate"]
    assert one(found, "iterate").subject is one(found, "shard").subject
    assert one(found, "shard").loader is one(found, "loader").subject
    assert all(facts.has(SourceKind.RANK) for facts in [one(found, "sampled").index.facts])
    assert is_mean_of_uneven(found)
    assert line(found, term(found).reduction) in lines(found, "# mean")
    assert {line(found, each.site) for each in term(found).even.evidence} == lines(found, "# marked")
    assert not update(found).accumulates
    assert term(found).scalings == ()


def test_accelerate_accumulates_only_when_told_to(tmp_path: Path) -> None:
    found = accelerated(tmp_path, "gradient_accumulation_steps=4", "with accelerator.accumulate(model):")
    assert update(found).accumulates
    assert counts_steps(update(found).step)
    assert not update(found).backwards[0].guards
    assert divisor(found) in lines(found, "gradient_accumulation_steps=4")
    assert not update(accelerated(tmp_path, "", "with accelerator.accumulate(model):")).accumulates


def test_accelerate_prepares_one_object_or_several(tmp_path: Path) -> None:
    found = run(
        tmp_path,
        SHOW
        + """
from accelerate import Accelerator, PartialState
accelerator = Accelerator()
model = Tagger()
show(accelerator.prepare(model))
show(accelerator.prepare(model, torch.optim.SGD(model.parameters(), 0.1)))
show(accelerator.prepare(None))
show(accelerator.process_index, accelerator.num_processes, accelerator.unwrap_model(accelerator.prepare(model)))
show(PartialState().process_index)
""",
    )
    assert shown(found) == [
        "<DistributedDataParallel>",
        ("<DistributedDataParallel>", "<AcceleratedOptimizer>"),
        None,
        (RANK, WORLD, "<Tagger>"),
        RANK,
    ]


def test_accelerate_collectives_and_seeds(tmp_path: Path) -> None:
    found = run(
        tmp_path,
        """
        from accelerate import Accelerator
        from accelerate.utils import broadcast_object_list, gather_object, set_seed
        accelerator = Accelerator()
        set_seed(1)
        set_seed(1, device_specific=True)
        x = torch.ones(3)
        accelerator.gather(x), accelerator.gather_for_metrics((x, x)), accelerator.reduce(x, reduction="mean")
        gather_object([1]), broadcast_object_list([1])
        accelerator.wait_for_everyone()
        @accelerator.on_main_process
        def report():
            accelerator.gather(x)
        report()
        """,
    )
    assert [event.state.by_rank for event in found.of_kind("seed")] == [False, True]
    assert names(found) == [
        "all_gather",
        "all_gather",
        "all_reduce",
        "all_gather",
        "broadcast",
        "barrier",
        "all_gather",
    ]
    alone = [event for event in found.of_kind("collective") if any(guard.by_rank for guard in event.guards)]
    assert alone == found.of_kind("collective")[-1:]


def test_a_prepared_scheduler_steps_once_for_each_rank(tmp_path: Path) -> None:
    text = """
        from accelerate import Accelerator
        accelerator = Accelerator(split_batches=SPLIT)
        optimizer = torch.optim.SGD(Tagger().parameters(), 0.1)
        scheduler = accelerator.prepare(torch.optim.lr_scheduler.LinearLR(optimizer, total_iters=10))
        scheduler.step()
    """
    found = run(tmp_path, text.replace("SPLIT", "False"))
    assert one(found, "prepare scheduler").subject is one(found, "scheduler").subject
    assert one(found, "prepare scheduler").multiplies.value is True
    assert len(one(found, "scheduler step").loops) == 1
    found = run(tmp_path, text.replace("SPLIT", "True"))
    assert one(found, "prepare scheduler").multiplies.value is False
    assert not one(found, "scheduler step").loops
