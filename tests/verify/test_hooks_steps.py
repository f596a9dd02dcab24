"""Where a window ends, and what is seen of its forwards and gradients."""

from __future__ import annotations

from pathlib import Path

import pytest
from safetensors.torch import load_file

from dpcheck.verify.recording import tensors_file
from tests.verify.hooked import Hooked, hooked

__all__ = ["hooked"]

START = """
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
dist.init_process_group("gloo")
torch.manual_seed(0)
rank = dist.get_rank()
x = torch.arange(8.0).view(4, 2) + rank
"""


@pytest.mark.parametrize(
    "update",
    [
        "p.data -= 0.1 * p.grad",
        "p.data.add_(p.grad, alpha=-0.1)",
        "with torch.no_grad(): p -= 0.1 * p.grad",
        "p.data.copy_(p.data - 0.1 * p.grad)",
    ],
)
def test_an_update_written_by_hand_is_a_step(hooked: Hooked, update: str) -> None:
    source = f"""{START}
model = DDP(nn.Linear(2, 1))
for step in range(2):
    model.zero_grad()
    model(x).sum().backward()
    for p in model.parameters():
        {update}
"""
    for recording in hooked.run(source, steps=True).recordings:
        assert [window.optimizer_type for window in recording.windows] == ["HandWrittenUpdate"] * 2
        assert [window.backwards for window in recording.windows] == [1, 1]
        assert [share.name for share in recording.windows[0].gradients] == ["0.weight", "0.bias"]
        assert all(window.local and window.forwards == 1 for window in recording.windows)
        assert recording.windows[0].place.line == len(source[: source.index(update)].splitlines())
        assert recording.windows[0].weights[0].digest != recording.windows[1].weights[0].digest
        assert recording.group == 2


def test_where_there_is_an_optimizer_writing_into_parameters_is_no_step(hooked: Hooked) -> None:
    source = f"""{START}
model = DDP(nn.Linear(2, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(x).sum().backward()
with torch.no_grad():
    for p in model.parameters():
        p.clamp_(-1, 1).mul_(0.99)
optimizer.step()
"""
    [first, _] = hooked.run(source, steps=True).recordings
    assert [window.optimizer_type for window in first.windows] == ["SGD"]


def test_the_gradient_of_a_whole_flat_parameter_is_no_gradient_of_a_shard(hooked: Hooked, tmp_path: Path) -> None:
    source = f"""{START}
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
model = FSDP(nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1)), use_orig_params=False, device_id=torch.device("cpu"))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(x).sum().backward()
optimizer.step()
open({str(tmp_path)!r} + f"/folder{{rank}}", "w").write(__file__)
"""
    hooked.run(source, steps=True)
    for rank in range(2):
        folder = Path((tmp_path / f"folder{rank}").read_text()).parents[1] / f"rank{rank}"
        kept = load_file(tensors_file(folder, 0))
        assert any(name.startswith("gradient/") for name in kept)
        assert not any(name.startswith("local/") for name in kept)


def test_a_wrapper_in_evaluation_around_a_model_in_training(hooked: Hooked) -> None:
    source = f"""{START}
inner = nn.Linear(2, 1)
model = DDP(inner)
model.eval()
inner.train()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(x).sum().backward()
optimizer.step()
"""
    [first, _] = hooked.run(source, steps=True).recordings
    assert [window.forwards for window in first.windows] == [1]
    assert first.evaluations == 0
    assert first.windows[0].first_shape == [4, 2]
    assert len(first.windows[0].first_input) == 4


def test_weights_that_are_averaged_now_and_then_are_told(hooked: Hooked) -> None:
    source = f"""{START}
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
model = nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
averager = PeriodicModelAverager(period=2)
model(x).sum().backward()
optimizer.step()
averager.average_parameters(model.parameters())
"""
    [first, _] = hooked.run(source, steps=True).recordings
    assert [(note.kind, note.place.line) for note in first.notes] == [("model-averaging", 14)]


def test_buffers_of_a_module_that_makes_the_loss(hooked: Hooked) -> None:
    source = f"""{START}
class Centred(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("center", torch.zeros(1))
    def forward(self, output):
        loss = (output - self.center).pow(2).mean()
        self.center = output.detach().mean(0)
        return loss
class Meter(Centred):
    def forward(self, loss):
        self.center = loss.detach()
        return self.center
model, criterion, meter = DDP(nn.Linear(2, 1)), Centred(), Meter()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loss = criterion(model(x))
meter(loss)
loss.backward()
optimizer.step()
"""
    [first, second] = hooked.run(source, steps=True).recordings
    assert list(first.windows[0].buffers) == ["1.center"]
    assert first.windows[0].buffers != second.windows[0].buffers
