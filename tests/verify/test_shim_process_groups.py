"""gloo in place of nccl, two ranks: what only nccl can do, wrappers, SyncBatchNorm."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.verify.shimmed import Shimmed, serving


@pytest.fixture(scope="module")
def shimmed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shimmed]:
    with serving(tmp_path_factory.mktemp("shimmed")) as running:
        yield running


def test_nccl_becomes_gloo_with_the_ranks_of_the_run(shimmed: Shimmed) -> None:
    ran = shimmed.run(
        """
        import json, os, torch, torch.distributed as dist
        from datetime import timedelta
        dist.init_process_group("cpu:gloo,cuda:nccl", init_method="tcp://10.0.0.1:23456", world_size=8, rank=5,
                                timeout=timedelta(seconds=1), device_id=torch.device("cuda", 5))
        rank = dist.get_rank()
        group = dist.new_group([0, 1], backend="nccl", timeout=timedelta(seconds=1))
        mesh = dist.init_device_mesh("cuda", (2,), mesh_dim_names=("dp",))
        x = torch.full((2,), float(rank + 1), device="cuda")
        dist.all_reduce(x, op=dist.ReduceOp.AVG, group=group)
        dist.barrier(device_ids=[rank])
        split = dist.split_group(split_ranks=[[0], [1]])
        mine = torch.full((1,), float(rank)).cuda()
        dist.all_reduce(mine, group=split)
        first = [rank, dist.get_world_size(), dist.get_backend(), x.tolist(), mesh.device_type, mesh.size(),
                 mine.item()]
        dist.destroy_process_group()
        dist.init_process_group("nccl")
        again = torch.ones(1).cuda()
        dist.all_reduce(again)
        print(json.dumps([*first, again.item()]))
        """,
        ranks=2,
    )
    for rank, one in enumerate(ran):
        assert one.result == [rank, 2, "gloo", [1.5, 1.5], "cpu", 2, float(rank), 2.0]
        assert [note.text for note in one.notes("world-size")] == ["the script asked for world size 8 and got 2"]
        assert [note.text for note in one.notes("rank")] == [f"the script asked for rank 5 and got {rank}"]


def test_reductions_that_only_nccl_has(shimmed: Shimmed) -> None:
    ran = shimmed.run(
        """
        import json, torch, torch.distributed as dist
        import torch.distributed._functional_collectives as funcol
        dist.init_process_group("nccl")
        rank, AVG = dist.get_rank(), dist.ReduceOp.AVG
        t = lambda *values: torch.tensor(values) * (rank + 1)
        out = {}
        x = t(1.0, 2.0); dist.all_reduce(x, AVG); out["all_reduce"] = x.tolist()
        x = t(1.0, 2.0); work = dist.all_reduce(x, op=AVG, async_op=True); work.wait(); out["async"] = x.tolist()
        x = t(3, 4); dist.all_reduce(x, op=AVG); out["integers"] = x.tolist()
        x = t(1.0, 2.0); dist.all_reduce(x, op=dist._make_nccl_premul_sum(0.25)); out["premul"] = x.tolist()
        x = t(1.0, 2.0); dist.reduce(x, 1, op=AVG); out["reduce"] = x.tolist()
        x = torch.zeros(1); dist.reduce_scatter(x, [t(1.0), t(2.0)], op=AVG); out["reduce_scatter"] = x.tolist()
        x = torch.zeros(1); dist.reduce_scatter_tensor(x, t(1.0, 2.0), op=AVG)
        out["reduce_scatter_tensor"] = x.tolist()
        xs = [t(1.0), t(2.0)]; dist.all_reduce_coalesced(xs, op=AVG); out["coalesced"] = [x.item() for x in xs]
        x, y = t(1.0), t(2.0)
        with dist._coalescing_manager(async_ops=True) as manager:
            dist.all_reduce(x); dist.all_reduce(y, op=dist.ReduceOp.MAX)
        manager.wait(); out["manager"] = [x.item(), y.item()]
        out["functional"] = funcol.all_reduce(t(1.0, 2.0), "avg", dist.group.WORLD).numpy().tolist()
        x = funcol.reduce_scatter_tensor(t(1.0, 2.0), "avg", 0, dist.group.WORLD)
        out["functional scatter"] = x.numpy().tolist()
        x = t(1.0, 2.0); dist.all_reduce(x, op=dist.ReduceOp.MAX); out["max"] = x.tolist()
        print(json.dumps(out))
        """,
        ranks=2,
    )
    both = {
        "all_reduce": [1.5, 3.0],
        "async": [1.5, 3.0],
        "integers": [4, 6],
        "premul": [0.75, 1.5],
        "coalesced": [1.5, 3.0],
        "manager": [3.0, 4.0],
        "functional": [1.5, 3.0],
        "max": [2.0, 4.0],
    }
    for rank, one in enumerate(ran):
        assert one.result == {
            **both,
            "reduce": [1.0, 2.0] if rank == 0 else [1.5, 3.0],
            "reduce_scatter": [1.5 * (rank + 1)],
            "reduce_scatter_tensor": [1.5 * (rank + 1)],
            "functional scatter": [1.5 * (rank + 1)],
        }


def test_gathers_and_exchanges(shimmed: Shimmed) -> None:
    ran = shimmed.run(
        """
        import json, torch, torch.distributed as dist
        import torch.distributed.nn.functional as autograd
        dist.init_process_group("nccl")
        rank = dist.get_rank()
        parts = [torch.zeros(1), torch.zeros(2)]
        dist.all_gather(parts, torch.full((rank + 1,), rank + 1.0))
        received = [torch.zeros(1), torch.zeros(2)] if rank == 0 else [torch.zeros(2), torch.zeros(1)]
        given = [torch.full((1,), 10.0 + rank), torch.full((2,), 20.0 + rank)]
        if rank == 1: given.reverse()
        dist.all_to_all(received, given)
        whole = torch.zeros(4)
        dist.all_gather_into_tensor(whole, torch.full((2,), rank + 1.0))
        x = torch.ones(2, requires_grad=True)
        (autograd._all_gather_base(torch.zeros(4), x) * torch.arange(4.0) * (rank + 1)).sum().backward()
        lists = [[tensor.tolist() for tensor in tensors] for tensors in (parts, received)]
        print(json.dumps([*lists, whole.tolist(), x.grad.tolist()]))
        """,
        ranks=2,
    )
    for rank, one in enumerate(ran):
        parts, received, whole, gradient = one.result
        assert parts == [[1.0], [2.0, 2.0]]
        assert received == ([[10.0], [21.0, 21.0]] if rank == 0 else [[20.0, 20.0], [11.0]])
        assert whole == [1.0, 1.0, 2.0, 2.0]
        assert gradient == ([0.0, 3.0] if rank == 0 else [6.0, 9.0])


def test_emulations_agree_with_what_gloo_has(shimmed: Shimmed) -> None:
    """They serve older versions of torch."""
    ran = shimmed.run(
        """
        import json, torch, torch.distributed as dist
        from dpcheck.verify.shim import gloo
        dist.init_process_group("gloo")
        rank = dist.get_rank()
        draw = lambda *size: torch.rand(size, generator=torch.Generator().manual_seed(rank))
        def same(name, emulation, make):
            native, emulated = make(), make()
            getattr(dist, name)(*native); emulation(*emulated)
            first = lambda value: value if isinstance(value, list) else [value]
            return all(torch.equal(a, b) for a, b in zip(first(native[0]), first(emulated[0])))
        print(json.dumps([
            same("reduce_scatter", gloo._reduce_scatter, lambda: (torch.zeros(3), [draw(3), draw(3)])),
            same("reduce_scatter_tensor", gloo._reduce_scatter_tensor, lambda: (torch.zeros(2, 3), draw(4, 3))),
            same("all_gather_into_tensor", gloo._all_gather_tensor, lambda: (torch.zeros(4, 3), draw(2, 3))),
        ]))
        """,
        ranks=2,
    )
    assert [one.result for one in ran] == [[True] * 3] * 2


TRAIN = """
    import json, torch, torch.distributed as dist
    from torch import nn
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    torch.cuda.set_device(rank)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).cuda(rank)
    data = torch.arange(12.0).view(4, 3) / 10
    alone = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    alone.load_state_dict(model.state_dict())
    alone(data).pow(2).mean().backward()
    expected = [p.grad for p in alone.parameters()]
    {wrap}
    net(data[rank * 2 : rank * 2 + 2].cuda(rank)).pow(2).mean().backward()
    {gradients}
    print(json.dumps([max((g - e).abs().max().item() for g, e in zip(gradients, expected)), str(gradients[0].dtype)]))
    """


@pytest.mark.parametrize(
    ("wrap", "gradients", "kind"),
    [
        (
            "net = nn.parallel.DistributedDataParallel(model, device_ids=[rank], output_device=rank)",
            "gradients = [p.grad for p in net.parameters()]",
            None,
        ),
        (
            (
                "from torch.distributed.algorithms.ddp_comm_hooks import default_hooks\n"
                "    net = nn.parallel.DistributedDataParallel(model, device_ids=[rank])\n"
                "    net.register_comm_hook(None, default_hooks.bf16_compress_hook)"
            ),
            "gradients = [p.grad for p in net.parameters()]",
            "comm-hook",
        ),
        (
            (
                "from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as power\n"
                "    net = nn.parallel.DistributedDataParallel(model)\n"
                "    net.register_comm_hook(power.PowerSGDState(None), power.powerSGD_hook)"
            ),
            "gradients = [p.grad for p in net.parameters()]",
            "approximating-hook",
        ),
        (
            (
                "from torch.distributed.algorithms.ddp_comm_hooks import default_hooks\n"
                "    net = nn.parallel.DistributedDataParallel(model)\n"
                "    net.register_comm_hook(None, default_hooks.allreduce_hook)"
            ),
            "gradients = [p.grad for p in net.parameters()]",
            None,
        ),
        (
            (
                "from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, MixedPrecision\n"
                "    net = FSDP(model, device_id=torch.cuda.current_device(), sync_module_states=True,\n"
                "               use_orig_params=True, mixed_precision=MixedPrecision(torch.bfloat16, torch.bfloat16))"
            ),
            (
                "with FSDP.summon_full_params(net, with_grads=True):\n"
                "        gradients = [p.grad.clone() for p in net.parameters()]"
            ),
            "mixed-precision",
        ),
        (
            (
                "from torch.distributed.fsdp import fully_shard, MixedPrecisionPolicy\n"
                "    mesh = dist.init_device_mesh('cuda', (2,))\n"
                "    fully_shard(model[0], mesh=mesh, mp_policy=MixedPrecisionPolicy(torch.bfloat16, torch.float32))\n"
                "    net = fully_shard(model, mesh=mesh)"
            ),
            "gradients = [p.grad.full_tensor() for p in net.parameters()]",
            "mixed-precision",
        ),
    ],
    ids=["ddp", "ddp-compressed", "ddp-approximated", "ddp-hook", "fsdp", "fully_shard"],
)
def test_wrappers_average_what_one_process_computes(
    shimmed: Shimmed, wrap: str, gradients: str, kind: str | None
) -> None:
    for one in shimmed.run(TRAIN.format(wrap=wrap, gradients=gradients), ranks=2):
        error, dtype = one.result
        assert error < 1e-15
        assert dtype == "torch.float64"
        assert {note.kind for note in one.recording.notes} == ({kind} if kind else set())


def test_sync_batch_norm_is_batch_norm_on_the_union(shimmed: Shimmed) -> None:
    """With uneven parts, weights, several layers, running statistics, and momentum None."""
    ran = shimmed.run(
        """
        import copy, json, torch, torch.distributed as dist
        from torch import nn
        dist.init_process_group("nccl")
        rank = dist.get_rank()
        torch.manual_seed(0)
        worst = {}
        for name, shape, options in (
            ("plain", (7, 3), {}), ("images", (7, 3, 4, 5), {}), ("cumulative", (7, 3, 6), {"momentum": None}),
            ("bare", (7, 3, 2), {"affine": False, "track_running_stats": False}),
        ):
            kind = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d}[len(shape)]
            alone = nn.Sequential(kind(3, **options), nn.Tanh(), kind(3, **options))
            for p in alone.parameters(): nn.init.uniform_(p, 0.5, 1.5)
            synced = nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(alone)).cuda()
            assert type(synced[0]) is nn.SyncBatchNorm
            errors = []
            for step in range(2):
                whole = (torch.randn(shape) * 3 + 100).requires_grad_()
                weights = torch.randn(shape)
                part = slice(0, 5) if rank == 0 else slice(5, 7)
                own = whole.detach()[part].requires_grad_()
                (alone(whole) * weights).sum().backward()
                out = synced(own)
                (out * weights[part]).sum().backward()
                errors += [(own.grad - whole.grad[part]).abs().max(), (out - alone(whole.detach())[part]).abs().max()]
                for a, b in zip(alone.parameters(), synced.parameters()):
                    total = b.grad.clone(); dist.all_reduce(total)
                    errors.append((a.grad - total).abs().max() / a.grad.abs().max())
                alone.zero_grad(); synced.zero_grad()
                if step == 0:  # the extra forward of the check counted twice in the statistics
                    for a, b in zip(alone, synced):
                        if getattr(a, "running_mean", None) is not None:
                            a.load_state_dict(b.state_dict())
            worst[name] = max(error.item() for error in errors)
        norm, plain = nn.SyncBatchNorm(3).cuda(), nn.BatchNorm1d(3)
        whole = torch.randn(9, 3) + 5
        norm(whole[:6] if rank == 0 else whole[6:]); plain(whole)
        worst["running"] = max((a - b).abs().max().item() for a, b in zip(norm.buffers(), plain.buffers()))
        worst["eval"] = (norm.eval()(whole) - plain.eval()(whole)).abs().max().item()
        wrapped = nn.parallel.DistributedDataParallel(nn.Sequential(nn.SyncBatchNorm(3), nn.Linear(3, 1)))
        wrapped(whole).sum().backward()
        print(json.dumps(worst))
        """,
        ranks=2,
    )
    for one in ran:
        assert set(one.result) == {"plain", "images", "cumulative", "bare", "running", "eval"}
        assert max(one.result.values()) < 1e-12


def test_data_parallel_is_its_module(shimmed: Shimmed) -> None:
    ran = shimmed.run(
        """
        import json, torch
        from torch import nn
        model = nn.Linear(3, 2)
        net = nn.DataParallel(model.cuda(), device_ids=[0, 1], output_device=1)
        x = torch.ones(4, 3)
        same = [torch.equal(net(x), model(x)), torch.equal(nn.parallel.data_parallel(model, x, [0, 1]), model(x))]
        print(json.dumps([*same, list(net.state_dict())]))
        """
    )[0]
    assert ran.result == [True, True, ["module.weight", "module.bias"]]
    assert [note.place.line for note in ran.notes("data-parallel")] == [5]
