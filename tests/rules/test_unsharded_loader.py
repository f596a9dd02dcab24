"""Whose data is divided, though no sampler does it."""

from __future__ import annotations

import pytest

from tests.rules.trainings import MODEL, judge, training

BODY = "loss = F.mse_loss(model(x), y)"
LOAD = "loader = DataLoader(own, batch_size=4, shuffle=True)"
ROWS = "rows = [(torch.full((4,), float(i)), torch.ones(8)) for i in range(32)]"
SEEDS = """
import graph_sampling


class Seeds:
    def __init__(self, nodes):
        self.nodes = nodes

    def __getitem__(self, index):
        return Seeds(self.nodes[torch.tensor(index)])


class Neighbours(DataLoader):
    def __init__(self, nodes, **kwargs):
        self.seeds = Seeds(nodes)
        super().__init__(range(len(nodes)), collate_fn=self.collate, **kwargs)

    def collate(self, index):
        found = graph_sampling.Sampler().sample(index)
        return found.x, found.y
"""
RIGHT = {
    "a comprehension": ("", f"{ROWS}\nown = [row for i, row in enumerate(rows) if i % world_size == rank]\n{LOAD}"),
    "a comprehension, by hash": (
        "",
        f"{ROWS}\nown = list({{i: row for i, row in enumerate(rows) if hash(i) % world_size == rank}}.values())\n{LOAD}",
    ),
    "a mask": (
        "",
        f"{ROWS}\nmask = [i % world_size == rank for i in range(len(rows))]\n"
        f"own = [row for row, kept in zip(rows, mask) if kept]\n{LOAD}",
    ),
    "continue": (
        "",
        f"{ROWS}\nown = []\nfor i, row in enumerate(rows):\n    if i % world_size != rank:\n        continue\n"
        f"    own.append(row)\n{LOAD}",
    ),
    "filter": (
        "",
        f"{ROWS}\nkept = list(filter(lambda i: i % world_size == rank, range(len(rows))))\n"
        f"own = [rows[i] for i in kept]\n{LOAD}",
    ),
    "arange": (
        "",
        "own = torch.arange(rank, len(data), world_size)\n"
        "loader = DataLoader(data, batch_size=4, sampler=torch.utils.data.SubsetRandomSampler(own.tolist()))",
    ),
    "an item of an unread container": (
        SEEDS,
        "split = torch.load('split.pt')\n"
        "split['train'] = split['train'].split(len(split['train']) // world_size)[rank]\n"
        "loader = Neighbours(split['train'], batch_size=4)",
    ),
}
WRONG = {
    "a test that knows no rank": (
        "",
        f"{ROWS}\nown = [row for i, row in enumerate(rows) if i % 2 == 0]\n{LOAD}  # want: DP201",
    ),
    "the collate function has all nodes": (
        SEEDS.replace("collate_fn=self.collate, **kwargs)", "collate_fn=self.collate, **kwargs)  # want: DP201"),
        "loader = Neighbours(torch.load('nodes.pt'), batch_size=4)",
    ),
}


@pytest.mark.parametrize("name", [*WRONG, *RIGHT])
def test_loaders(name, tmp_path, monkeypatch) -> None:
    above, before = {**WRONG, **RIGHT}[name]
    judge(training(BODY, above, f"{before}\n{MODEL}"), "DP201", tmp_path, monkeypatch)
