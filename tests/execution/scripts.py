"""Scripts that train with a framework, and what the tests ask of their runs."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

from dpcheck.execution import TrainingRun
from dpcheck.execution.facts import SourceKind, Term
from dpcheck.execution.run import Event, Update
from dpcheck.execution.values import Const, Data
from tests.execution.programs import execute

WRAPPED = """
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group()
model = DistributedDataParallel(nn.Linear(4, 2))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
"""
GROUP = "import torch.distributed\ntorch.distributed.init_process_group()\n"
TORCH = """
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset
"""
TAGGED = f"""{TORCH}
class Tagged(Dataset):
    def __init__(self, n=32):
        self.rows = []
        for _ in range(n):
            ids = torch.randint(1, 40, (12,))
            labels = ids.clone()
            labels[: int(torch.randint(1, 11, (1,)))] = -100  # marked
            self.rows.append((ids, labels))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]

class Keyed(Tagged):
    def __getitem__(self, i):
        ids, labels = self.rows[i]
        return {{"input_ids": ids, "labels": labels}}

class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(40, 8)
        self.out = nn.Linear(8, 40)

    def forward(self, ids):
        return self.out(self.embed(ids))

def pairs():
    return TensorDataset(torch.randn(64, 4), torch.randint(0, 2, (64,)))
"""


def run(root: Path, text: str, *, before: str = TAGGED, files: dict[str, str] | None = None) -> TrainingRun:
    """Execute `text`, with classes to train on in front of it, in a folder of its own."""
    folder = root / str(len(list(root.iterdir())))
    found = execute(folder, before + textwrap.dedent(text), files)
    assert found.complete
    return found


def lines(found: TrainingRun, text: str) -> set[int]:
    source = Path(found.entry.path).read_text("utf-8").splitlines()
    return {number for number, line in enumerate(source, 1) if text in line}


def line(found: TrainingRun, site: Any) -> int:
    return found.span(site).line


def one(found: TrainingRun, kind: str) -> Event:
    (event,) = found.of_kind(kind)
    return event


def update(found: TrainingRun) -> Update:
    """The only optimizer step, whose loss came through a wrapper and from a loader."""
    (only,) = found.updates
    assert only.wraps
    assert all(backward.facts.has(SourceKind.LOADER) for backward in only.backwards)
    return only


def term(found: TrainingRun) -> Term:
    (backward,) = update(found).backwards
    (only,) = backward.facts.terms
    return only


def divisor(found: TrainingRun) -> int:
    """The line on which what divides the loss was written, where one factor is all there is."""
    (scaling,) = term(found).scalings
    assert scaling.divides
    assert isinstance(scaling.value, (Const, Data))
    return line(found, scaling.value.site)


def is_mean_of_uneven(found: TrainingRun) -> bool:
    only = term(found)
    return only.place.is_ratio and only.even.is_uneven and not only.explicit


def is_exact(found: TrainingRun) -> bool:
    (judged,) = update(found).judged()
    return judged.place.is_partial and judged.world == 0 and judged.counted


def names(found: TrainingRun) -> list[str]:
    """The collectives of a run, in order."""
    named = (event.details["name"] for event in found.of_kind("collective"))
    return [name.value if isinstance(name, Const) else name for name in named]


def counts_steps(event: Event) -> bool:
    return any(guard.counts_steps for guard in event.guards)


def sharded_by(found: TrainingRun) -> list[str]:
    return [event.by.value for event in found.of_kind("shard") if isinstance(event.details.get("by"), Const)]
