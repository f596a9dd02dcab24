"""Which collectives are recorded, of scripts that run on two gloo ranks."""

from __future__ import annotations

import pytest

from dpcheck.verify.recording import Collective
from tests.verify.hooked import Hooked, hooked

__all__ = ["hooked"]

START = """
import torch, torch.distributed as dist, torch.nn as nn
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
"""

MODEL = """
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
data, target = torch.randn(6, 4), torch.randn(6, 2)
"""


def line_of(source: str, text: str) -> int:
    return next(number for number, line in enumerate(source.splitlines(), 1) if text in line)


def told(collectives: list[Collective], *names: str) -> list[tuple[object, ...]]:
    return [tuple(getattr(one, name) for name in names) for one in collectives]


def test_the_reducer_and_the_buffers_of_ddp_are_seen(hooked: Hooked) -> None:
    source = (
        START
        + """
model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))
data, target = torch.randn(6, 4), torch.randn(6, 2)
model = nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    output = model(data)
    nn.functional.mse_loss(output, target).backward()
    optimizer.step()
"""
    )
    ran = hooked.run(source)
    steps = [one for one in ran.collectives if one.place.line > line_of(source, "DistributedDataParallel")]
    forward, backward = line_of(source, "model(data)"), line_of(source, "backward()")
    once = [  # the running statistics go together, the count of batches is of another type
        ("broadcast", [16], "float64", "wrapper", forward, 128),
        ("broadcast", [1], "int64", "wrapper", forward, 8),
        ("all_reduce", [74], "float64", "wrapper", backward, 592),
    ]
    buckets = [one for one in steps if one.dtype == "int32"]  # the second forward rebuilds the reducer's
    assert {(one.name, one.by, one.place.line, one.window) for one in buckets} == {("broadcast", "wrapper", forward, 1)}
    others = [one for one in steps if one not in buckets]
    assert [(one.name, one.shape, one.dtype, one.by, one.place.line, one.bytes) for one in others] == once * 2
    assert [one.window for one in others] == [0, 0, 0, 1, 1, 1]
    assert all(one.group == [0, 1] and one.finished and not one.carries_gradient for one in steps)
    made = [one for one in ran.collectives if one.place.line == line_of(source, "DistributedDataParallel")]
    assert {one.by for one in made} == {"wrapper"}
    # 74 elements of parameters and 16 of buffers
    assert ("broadcast", [90], 0) in told(made, "name", "shape", "root")
    assert told(ran.recordings[1].collectives, "name", "shape") == told(ran.collectives, "name", "shape")


def test_a_hand_written_average_is_the_scripts(hooked: Hooked) -> None:
    source = (
        START
        + MODEL
        + """
for parameter in model.parameters():
    dist.broadcast(parameter, src=1)
nn.functional.mse_loss(model(data), target).backward()
for parameter in model.parameters():
    dist.all_reduce(parameter.grad, op=dist.ReduceOp.SUM)
    parameter.grad /= 2
"""
    )
    collectives = hooked.run(source).collectives
    sync, reduce = line_of(source, "broadcast("), line_of(source, "all_reduce(")
    assert told(collectives, "name", "operation", "shape", "root", "by", "carries_gradient") == [
        ("broadcast", None, [8, 4], 1, "script", False),
        ("broadcast", None, [8], 1, "script", False),
        ("broadcast", None, [2, 8], 1, "script", False),
        ("broadcast", None, [2], 1, "script", False),
        ("all_reduce", "SUM", [8, 4], None, "script", False),
        ("all_reduce", "SUM", [8], None, "script", False),
        ("all_reduce", "SUM", [2, 8], None, "script", False),
        ("all_reduce", "SUM", [2], None, "script", False),
    ]
    assert [one.place.line for one in collectives] == [sync] * 4 + [reduce] * 4


@pytest.mark.parametrize("strategy", ["FULL_SHARD", "NO_SHARD"])
def test_those_of_fsdp(hooked: Hooked, strategy: str) -> None:
    source = (
        START
        + MODEL
        + f"""
from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy
strategy = ShardingStrategy.{strategy}
model = FullyShardedDataParallel(model, sharding_strategy=strategy, device_id=torch.device("cpu"))
output = model(data)
nn.functional.mse_loss(output, target).backward()
"""
    )
    collectives = hooked.run(source).collectives
    forward, backward = line_of(source, "model(data)"), line_of(source, "backward()")
    steps = [one for one in collectives if one.place.line in (forward, backward)]
    assert {one.by for one in steps} == {"wrapper"}
    sequence = [(one.name, one.place.line) for one in steps]
    if strategy == "NO_SHARD":
        assert sequence == [("all_reduce", backward)]
    else:
        # the root's shards stay gathered between forward and backward
        assert sequence == [("all_gather", forward), ("reduce_scatter_tensor", backward)]
        assert [one.shape for one in steps] == [[29], [58]]


def test_those_of_fully_shard(hooked: Hooked) -> None:
    source = (
        START
        + MODEL
        + """
from torch.distributed.fsdp import fully_shard
from torch.distributed.device_mesh import init_device_mesh
mesh = init_device_mesh("cpu", (2,))
for layer in (model[0], model[2]):
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
output = model(data)
nn.functional.mse_loss(output, target).backward()
"""
    )
    collectives = hooked.run(source).collectives
    forward, backward = line_of(source, "model(data)"), line_of(source, "backward()")
    steps = [one for one in collectives if one.place.line in (forward, backward)]
    assert {one.by for one in steps} == {"wrapper"}
    assert [one.name for one in steps if one.place.line == forward] == ["all_gather_into_tensor"] * 2
    reductions = [one for one in steps if "reduce" in one.name]
    assert [(one.name, one.operation, one.place.line) for one in reductions] == [
        ("reduce_scatter_tensor", "SUM", backward)
    ] * 2
    assert all(one.finished for one in steps)


def test_features_that_carry_gradient_through_a_plain_gather(hooked: Hooked) -> None:
    source = (
        START
        + MODEL
        + """
import torch.distributed.nn
import torch.distributed._functional_collectives as functional
features = model(data)
everyone = [torch.empty(6, 2) for _ in range(2)]
dist.all_gather(everyone, features)                         # 0 lost
dist.all_gather(everyone, features.detach())                # 1 meant
with torch.no_grad():
    dist.all_gather(everyone, features)                     # 2 meant
dist.gather(features, everyone if rank == 0 else None)      # 3 lost
torch.distributed.nn.all_reduce(features)                   # 4 differentiated
functional.all_reduce(features, "sum", dist.group.WORLD)    # 5 differentiated
dist.all_reduce(features.mean())                            # 6 lost
dist.all_reduce(next(model.parameters()))                   # 7 a parameter itself
"""
    )
    collectives = hooked.run(source).collectives
    assert told(collectives, "name", "operation", "carries_gradient", "by") == [
        ("all_gather", None, True, "script"),
        ("all_gather", None, False, "script"),
        ("all_gather", None, False, "script"),
        ("gather", None, True, "script"),
        ("all_reduce", "SUM", False, "script"),
        ("all_reduce", "SUM", False, "script"),
        ("all_reduce", "SUM", True, "script"),
        ("all_reduce", "SUM", False, "script"),
    ]
    lines = [line_of(source, f"# {number} ") for number in range(8)]
    assert [one.place.line for one in collectives] == lines


def test_a_differentiable_collective_enters_another_in_the_backward(hooked: Hooked) -> None:
    source = (
        START
        + """
import torch.distributed.nn
import torch.distributed._functional_collectives as functional
value = torch.ones(3, requires_grad=True)
torch.distributed.nn.all_reduce(value).sum().backward()     # by hand
functional.all_reduce(value, "sum", dist.group.WORLD).sum().backward()
"""
    )
    collectives = hooked.run(source).collectives
    first, second = line_of(source, "by hand"), line_of(source, "functional.all_reduce(")
    assert [(one.name, one.place.line, one.by, one.shape) for one in collectives] == [
        ("all_reduce", first, "script", [3]),
        ("all_reduce", first, "script", [3]),
        ("all_reduce", second, "script", [3]),
        ("all_reduce", second, "script", [3]),
    ]


def test_a_collective_of_collectives_counts_once(hooked: Hooked) -> None:
    source = (
        START
        + """
dist.all_gather_object([None, None], {"rank": rank})
dist.broadcast_object_list([rank], src=1)
dist.gather_object(rank, [None, None] if rank == 0 else None, dst=0)
dist.monitored_barrier()
dist.barrier()
dist.scatter_object_list([None], [1, 2] if rank == 0 else None, src=0)
"""
    )
    collectives = hooked.run(source).collectives
    assert told(collectives, "name", "root", "shape", "by", "finished") == [
        ("all_gather_object", None, None, "script", True),
        ("broadcast_object_list", 1, None, "script", True),
        ("gather_object", 0, None, "script", True),
        ("monitored_barrier", None, None, "script", True),
        ("barrier", None, None, "script", True),
        ("scatter_object_list", 0, None, "script", True),
    ]


def test_point_to_point(hooked: Hooked) -> None:
    source = (
        START
        + """
tensor = torch.ones(5)
peer = 1 - rank
if rank == 0:
    dist.send(tensor, 1)
else:
    dist.recv(tensor, 0)
works = dist.batch_isend_irecv([dist.P2POp(dist.isend, tensor, peer), dist.P2POp(dist.irecv, torch.empty(5), peer)])
for work in works:
    work.wait()
"""
    )
    ran = hooked.run(source)
    assert told(ran.recordings[0].collectives, "name", "shape", "root") == [
        ("send", [5], 1), ("isend", [5], 1), ("irecv", [5], 1),
    ]  # fmt: skip
    assert told(ran.recordings[1].collectives, "name", "shape", "root") == [
        ("recv", [5], 0), ("isend", [5], 0), ("irecv", [5], 0),
    ]  # fmt: skip


def test_groups_operations_and_who_is_no_member(hooked: Hooked) -> None:
    source = (
        START
        + """
alone = [dist.new_group([each]) for each in range(2)]
dist.all_reduce(torch.ones(2, dtype=torch.int32), op=dist.ReduceOp.MAX, group=alone[rank])
dist.broadcast(torch.ones(2), src=0, group=alone[0])
dist.reduce(torch.ones(2), dst=1)
dist.group.WORLD.allreduce([torch.ones(4)]).wait()
dist.all_reduce(torch.ones(2), async_op=True).wait()
"""
    )
    ran = hooked.run(source)
    assert told(ran.recordings[0].collectives, "name", "operation", "dtype", "group", "root") == [
        ("new_group", None, None, [0, 1], None),
        ("new_group", None, None, [0, 1], None),
        ("all_reduce", "MAX", "int32", [0], None),
        ("broadcast", None, "float64", [0], 0),
        ("reduce", "SUM", "float64", [0, 1], 1),
        ("all_reduce", None, "float64", [0, 1], None),
        ("all_reduce", "SUM", "float64", [0, 1], None),
    ]
    assert [one.name for one in ran.recordings[1].collectives] == [
        "new_group", "new_group", "all_reduce", "reduce", "all_reduce", "all_reduce",
    ]  # fmt: skip
    assert ran.recordings[1].collectives[2].group == [1]


def test_a_mesh_makes_its_groups_and_join_enters_its_own(hooked: Hooked) -> None:
    source = (
        START
        + MODEL
        + """
from torch.distributed.algorithms.join import Join
from torch.distributed.device_mesh import init_device_mesh
mesh = init_device_mesh("cpu", (2, 1), mesh_dim_names=("a", "b"))
dist.all_reduce(torch.ones(1), group=mesh.get_group("a"))
model = nn.parallel.DistributedDataParallel(model)
with Join([model]):
    for _ in range(1 + rank):
        nn.functional.mse_loss(model(data), target).backward()
"""
    )
    ran = hooked.run(source)
    meshed = [one for one in ran.collectives if one.place.line == line_of(source, "init_device_mesh(")]
    assert {one.name for one in meshed} == {"new_group"}
    hand = [one for one in ran.collectives if one.by == "script"]
    assert [(one.name, one.group) for one in hand if one not in meshed] == [("all_reduce", [0, 1])]
    joined = [[one for one in recording.collectives if one.by == "wrapper"] for recording in ran.recordings]
    # rank 0 trained once and then shadowed rank 1's second step: both entered the same
    assert [(one.name, one.shape) for one in joined[0]] == [(one.name, one.shape) for one in joined[1]]
    assert ("all_reduce", [58]) in told(joined[0], "name", "shape")


def test_a_library_asks_for_its_own(hooked: Hooked) -> None:
    source = (
        START
        + """
from torch.distributed.optim import ZeroRedundancyOptimizer
parameter = nn.Parameter(torch.ones(3))
optimizer = ZeroRedundancyOptimizer([parameter], optimizer_class=torch.optim.SGD, lr=0.1)
parameter.sum().backward()
optimizer.step()
"""
    )
    collectives = hooked.run(source).collectives
    assert collectives
    assert {one.by for one in collectives} == {"library"}
    assert {one.place.line for one in collectives} == {line_of(source, "step()")}


def test_in_inference_mode(hooked: Hooked) -> None:
    source = (
        START
        + """
with torch.inference_mode():
    dist.group.WORLD.allreduce([torch.ones(4)]).wait()
    dist.all_reduce(torch.ones(2))
"""
    )
    assert told(hooked.run(source).collectives, "name", "shape") == [("all_reduce", [4]), ("all_reduce", [2])]


def test_where_it_fails_or_hangs_is_known(hooked: Hooked) -> None:
    source = (
        START
        + """
import json, os, pathlib, threading, time
def inside():
    status = pathlib.Path(os.environ["TMPDIR"], "..", "status").read_text()
    return json.loads(status)["inside"]
assert inside() == ""
seen = []
if rank == 1:
    time.sleep(1.0)
else:
    watching = threading.Timer(0.5, lambda: seen.append(inside()))
    watching.start()
dist.all_reduce(torch.ones(2))
if rank == 0:
    watching.join()
    assert seen == ["dist.all_reduce"], seen
assert inside() == ""
seen.clear()
work = dist.all_reduce(torch.ones(2), async_op=True) if rank == 0 else time.sleep(1.0)
if rank == 0:
    watching = threading.Timer(0.5, lambda: seen.append(inside()))
    watching.start()
    work.wait()
    watching.join()
    assert seen == ["wait of dist.all_reduce"], seen
else:
    dist.all_reduce(torch.ones(2))
dist.all_gather([torch.ones(3)], torch.ones(2))
"""
    )
    ran = hooked.run(source, codes=[1, 1])
    assert [(one.name, one.finished) for one in ran.collectives] == [
        ("all_reduce", True), ("all_reduce", True), ("all_gather", False),
    ]  # fmt: skip


def test_a_hang_of_the_reducer_names_it(hooked: Hooked) -> None:
    source = (
        START
        + MODEL
        + """
import json, os, pathlib, threading, time
model = nn.parallel.DistributedDataParallel(model)
seen = []
def look():
    seen.append(json.loads(pathlib.Path(os.environ["TMPDIR"], "..", "status").read_text())["inside"])
output = model(data)
if rank == 1:
    time.sleep(1.0)
else:
    watching = threading.Timer(0.5, look)
    watching.start()
nn.functional.mse_loss(output, target).backward()
if rank == 0:
    watching.join()
    assert seen == ["DDP's all_reduce"], seen
"""
    )
    assert hooked.run(source).collectives[-1].finished


def test_only_so_many_are_kept(hooked: Hooked) -> None:
    source = (
        START
        + """
alone = [dist.new_group([each]) for each in range(2)][rank]
tensor = torch.ones(1)
for _ in range(20_010):
    dist.broadcast(tensor, src=rank, group=alone)
"""
    )
    recording = hooked.run(source).recordings[0]
    assert len(recording.collectives) == 20_000
    assert [note.text for note in recording.notes if note.kind == "collectives-truncated"] == [
        "only the first 20000 of 20012 collectives were recorded"
    ]
