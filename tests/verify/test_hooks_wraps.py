"""What DDP and FSDP were given, and what they made of it, on two gloo ranks."""

from __future__ import annotations

import pytest

from dpcheck.verify.recording import Recording, Wrap
from tests.verify.hooked import Hooked, Ran, hooked

__all__ = ["hooked"]

START = """
import torch, torch.distributed as dist, torch.nn as nn
dist.init_process_group("gloo")
rank = dist.get_rank()
"""

SEEDED = START + "torch.manual_seed(0)\n"
OF_ITS_OWN = START + "torch.manual_seed(rank)\n"

MODEL = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8))
        self.head = nn.Linear(8, 3)
    def forward(self, data):
        return self.head(self.body(data))
model = Net()
"""

NAMES = [
    "0.body.0.weight", "0.body.0.bias", "0.body.1.weight", "0.body.1.bias", "0.head.weight", "0.head.bias",
]  # fmt: skip
DRAWN = ["0.body.0.weight", "0.body.0.bias", "0.head.weight", "0.head.bias"]


def only_wraps(ran: Ran) -> list[Wrap]:
    """The one wrap of each rank."""
    for recording in ran.recordings:
        assert [note.kind for note in recording.notes] == []
    return [wrap for recording in ran.recordings for wrap in wraps_of(recording, 1)]


def wraps_of(recording: Recording, count: int) -> list[Wrap]:
    assert len(recording.wraps) == count
    return recording.wraps


def test_ddp_takes_rank_0s_weights(hooked: Hooked) -> None:
    source = (
        OF_ITS_OWN
        + MODEL
        + """
model.body[1].running_mean += rank
model = nn.parallel.DistributedDataParallel(model, find_unused_parameters=True)
"""
    )
    first, second = only_wraps(hooked.run(source))
    assert (first.kind, first.model, first.group) == ("ddp", 0, [0, 1])
    assert list(first.before) == NAMES
    assert all(first.before[name] != second.before[name] for name in DRAWN)
    assert first.before["0.body.1.weight"] == second.before["0.body.1.weight"]
    assert first.after == second.after == first.before
    assert sorted(first.buffers_before) == [
        "0.body.1.num_batches_tracked", "0.body.1.running_mean", "0.body.1.running_var",
    ]  # fmt: skip
    assert first.buffers_before["0.body.1.running_mean"] != second.buffers_before["0.body.1.running_mean"]
    assert first.buffers_after == second.buffers_after == first.buffers_before
    assert first.options["find_unused_parameters"] == "True"
    assert first.options["broadcast_buffers"] == "True"
    assert first.options["static_graph"] == "False"
    line = source.splitlines()[first.place.line - 1]
    assert "DistributedDataParallel(" in line


def test_ddp_that_is_told_to_leave_buffers_alone(hooked: Hooked) -> None:
    source = (
        SEEDED
        + MODEL
        + """
model.body[1].running_mean += rank
model = nn.parallel.DistributedDataParallel(model, broadcast_buffers=False)
"""
    )
    first, second = only_wraps(hooked.run(source))
    assert first.options["broadcast_buffers"] == "False"
    assert first.buffers_after == first.buffers_before
    assert second.buffers_after == second.buffers_before != first.buffers_before


def test_ddp_without_initial_synchronization(hooked: Hooked) -> None:
    source = OF_ITS_OWN + MODEL + "model = nn.parallel.DistributedDataParallel(model, init_sync=False)\n"
    first, second = only_wraps(hooked.run(source))
    assert first.options["init_sync"] == "False"
    assert all(first.after[name] != second.after[name] for name in DRAWN)
    assert first.after == first.before


def test_digests_do_not_depend_on_the_moment_of_promotion(hooked: Hooked) -> None:
    source = (
        SEEDED
        + MODEL
        + """
model = nn.parallel.DistributedDataParallel(model.to({first}))
other = Net().to(torch.float32)
with torch.no_grad():
    for own, theirs in zip(other.parameters(), model.parameters()):
        own.copy_(theirs)
if {last}:
    other = other.double()
other = nn.parallel.DistributedDataParallel(other)
"""
    )
    ran = hooked.run(source.format(first="torch.float32", last=True))
    first, second = wraps_of(ran.recordings[0], 2)
    assert [second.before[name.replace("0.", "1.", 1)] for name in NAMES] == [first.before[name] for name in NAMES]
    assert second.model == 1


def test_a_group_of_fewer(hooked: Hooked) -> None:
    source = (
        SEEDED
        + MODEL
        + """
groups = [dist.new_group([each]) for each in range(2)]
model = nn.parallel.DistributedDataParallel(model, process_group=groups[rank])
"""
    )
    first, second = only_wraps(hooked.run(source))
    assert (first.group, second.group) == ([0], [1])


@pytest.mark.parametrize("synchronized", [True, False])
@pytest.mark.parametrize("originals", [True, False])
@pytest.mark.parametrize("strategy", ["FULL_SHARD", "NO_SHARD"])
def test_fsdp(hooked: Hooked, strategy: str, originals: bool, synchronized: bool) -> None:
    source = (
        OF_ITS_OWN
        + MODEL
        + f"""
from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy, _init_utils
_init_utils._check_module_states_for_sync_module_states = lambda states: None  # it insists on a GPU
model = FullyShardedDataParallel(
    model, sharding_strategy=ShardingStrategy.{strategy}, use_orig_params={originals},
    sync_module_states={synchronized}, device_id=torch.device("cpu"),
)
"""
    )
    first, second = only_wraps(hooked.run(source))
    assert (first.kind, first.model, first.group) == ("fsdp", 0, [0, 1])
    assert sorted(first.before) == sorted(NAMES)
    assert all(first.before[name] != second.before[name] for name in DRAWN)
    assert first.options == {
        "sharding_strategy": strategy,
        "sync_module_states": str(synchronized),
        "use_orig_params": str(originals),
        "mixed_precision": "None",
        "ignored_modules": "None",
        "ignored_states": "None",
        "device_mesh": "None",
    }
    # rank 0 keeps its own; so does rank 1, unless its shards are rank 0's now
    held = [name for name in DRAWN if name in second.after]
    assert all(first.after[name] == first.before[name] for name in first.after)
    if strategy == "NO_SHARD":
        assert held == DRAWN
        assert (second.after == first.after) == synchronized
    shards = [name for name in held if name != "0.body.0.weight"]  # which rank 0 holds, and a bit of the next
    changed = [second.after[name] != second.before[name] for name in shards]
    assert any(changed) == synchronized


def test_fsdp_wraps_inside_fsdp_count_with_the_outermost(hooked: Hooked) -> None:
    source = (
        SEEDED
        + MODEL
        + """
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
cpu = torch.device("cpu")
policy = ModuleWrapPolicy({nn.Linear})
other = Net()
model = FSDP(model, auto_wrap_policy=policy, device_id=cpu)
other.body = FSDP(other.body, device_id=cpu)
other.head = FSDP(other.head, device_id=cpu)
other = FSDP(other, device_id=cpu)
"""
    )
    first, second = wraps_of(hooked.run(source).recordings[0], 2)
    assert (first.model, first.options["inner"]) == (0, "2")
    assert (second.model, second.options["inner"]) == (1, "2")
    assert sorted(first.before) == sorted(NAMES)
    assert sorted(second.before) == sorted(name.replace("0.", "1.", 1) for name in NAMES)
    assert all(wrap.after[name] == wrap.before[name] for wrap in (first, second) for name in wrap.after)


def test_fully_shard_bottom_up(hooked: Hooked) -> None:
    source = (
        OF_ITS_OWN
        + MODEL
        + """
from torch.distributed.fsdp import fully_shard
fully_shard([model.body, model.head])
fully_shard(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
    )
    first, second = only_wraps(hooked.run(source))
    assert (first.kind, first.model, first.group, first.options["inner"]) == ("fully_shard", 0, [0, 1], "1")
    assert sorted(first.before) == sorted(NAMES)
    assert all(first.before[name] != second.before[name] for name in DRAWN)
    # each rank holds rows of the parameters that it was given: patchwork, which `before` shows
    assert first.after == first.before
    assert second.after == second.before


def test_models_on_the_meta_device_have_no_weights_yet(hooked: Hooked) -> None:
    source = (
        SEEDED
        + """
from torch.distributed.fsdp import fully_shard
with torch.device("meta"):
    model = nn.Linear(4, 4)
fully_shard(model)
"""
    )
    first, _ = only_wraps(hooked.run(source))
    assert first.before == first.after == {}


def test_backwards_without_synchronization_are_noted(hooked: Hooked) -> None:
    source = (
        SEEDED
        + """
data = torch.randn(2, 4)
model = nn.parallel.DistributedDataParallel(nn.Linear(4, 4))
model(data).sum().backward()
with model.no_sync():
    model(data).sum().backward()       # 1
model.require_backward_grad_sync = False
for _ in range(3):
    model(data).sum().backward()       # 2
with torch.no_grad():
    model(data)
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
model = FullyShardedDataParallel(nn.Linear(4, 4), device_id=torch.device("cpu"))
with model.no_sync():                  # 3
    model(data).sum().backward()
model = fully_shard(nn.Linear(4, 4))
model.set_requires_gradient_sync(True)
model.set_requires_gradient_sync(False)  # 4
"""
    )
    recording = hooked.run(source).recordings[0]
    lines = source.splitlines()
    assert [(note.kind, lines[note.place.line - 1].rpartition("# ")[2]) for note in recording.notes] == [
        ("no-sync", "1"), ("no-sync", "2"), ("no-sync", "3"), ("no-sync", "4"),
    ]  # fmt: skip


def test_one_process_wraps_as_well(hooked: Hooked) -> None:
    source = (
        SEEDED
        + MODEL
        + """
model = nn.parallel.DistributedDataParallel(model)
nn.functional.mse_loss(model(torch.randn(4, 4)), torch.randn(4, 3)).backward()
"""
    )
    (wrap,) = only_wraps(hooked.run(source, ranks=1))
    assert (wrap.group, wrap.after) == ([0], wrap.before)
