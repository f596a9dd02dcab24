"""Which divisions by hand leave ranks with different numbers of batches. Unknown is not uneven."""

from __future__ import annotations

import pytest

from tests.rules.trainings import MODEL, judge, training

ROWS = "[(torch.full((4,), float(i)), torch.ones(8)) for i in range({count})]"
BODY = "loss = F.mse_loss(model(x), y)"
STREAM = """
from itertools import islice


class Part(torch.utils.data.IterableDataset):
    def __init__(self, rows):
        self.rows = rows

    def __iter__(self):
        for row in islice(self.rows, dist.get_rank(), None, dist.get_world_size()):{want}
            yield row
"""
WRONG = {
    "a slice": ("", f"own = {ROWS.format(count=25)}[rank::world_size]  # want: DP210"),
    "islice": (STREAM.format(want="  # want: DP210"), f"own = Part({ROWS.format(count=25)})"),
}
RIGHT = {
    "a slice of a multiple": ("", f"own = {ROWS.format(count=32)}[rank::world_size]"),
    "islice of a multiple": (STREAM.format(want=""), f"own = Part({ROWS.format(count=32)})"),
    "a slice of what was not read": ("", "own = torch.load('rows.pt')[rank::world_size]"),
    "islice of what was not read": (STREAM.format(want=""), "own = Part(torch.load('rows.pt'))"),
    "a remainder of what was not read": (
        "",
        "own = [row for i, row in enumerate(torch.load('rows.pt')) if i % world_size == rank]",
    ),
}


@pytest.mark.parametrize("name", [*WRONG, *RIGHT])
def test_parts(name, tmp_path, monkeypatch) -> None:
    above, own = {**WRONG, **RIGHT}[name]
    before = f"{own}\nloader = DataLoader(own, batch_size=4)\n{MODEL}"
    judge(training(BODY, above, before), "DP210", tmp_path, monkeypatch)
