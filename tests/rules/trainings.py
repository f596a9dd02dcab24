"""A training script around a few lines that a test is about, and what the rules say of it."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tests.wants import score

SCRIPT = """\
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset
from contextlib import nullcontext

{above}


def main():
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    data = TensorDataset(torch.zeros(32, 4), torch.ones(32, 4))
    sampler = DistributedSampler(data, drop_last=True)
    loader = DataLoader(data, batch_size=4, sampler=sampler, drop_last=True)
{before}
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for step, (x, y) in enumerate(loader):
{body}


main()
"""
MODEL = """\
model = DDP(nn.Linear(4, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
UPDATE = """\
optimizer.zero_grad()
loss.backward()
optimizer.step()
"""


def training(body: str, above: str = "", before: str = MODEL, update: str = UPDATE) -> str:
    """A script whose loop executes `body` and then `update` for each batch `x, y`."""
    indented = textwrap.indent(textwrap.dedent(body).strip() + "\n" + update, " " * 12)
    return SCRIPT.format(
        above=textwrap.dedent(above), before=textwrap.indent(textwrap.dedent(before), " " * 4), body=indented
    )


def judge(script: str, code: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that the findings of a rule stand where the script wants them, and no others of that rule."""
    (folder / "train.py").write_text(script, "utf-8")
    monkeypatch.chdir(folder)
    result = score(folder, folder, (code,))
    assert result.missed == []
    assert [line for line in result.extra if f" {code} " in line] == []
