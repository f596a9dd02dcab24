"""Which of two lines is behind the loop that holds the other."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpcheck.verify.judge.loops import is_past
from dpcheck.verify.recording import Place

SOURCE = '''\
def train(loader):
    for epoch in range(2):
        for batch in loader:
            loss = batch.sum()
            if loss > 3:
                loss.backward()
            barrier()
        all_reduce(loss)
    gather()


def other():
    all_reduce(1)


while True:
    step()
barrier()
'''  # fmt: skip


@pytest.mark.parametrize(
    ("after", "inside", "expected"),
    [
        (8, 6, True),  # behind the loop over batches, within that over epochs
        (9, 6, True),
        (7, 6, False),  # the same loop
        (6, 8, False),  # before
        (9, 8, True),
        (13, 6, False),  # another function
        (18, 17, True),
        (9, 13, False),  # no loop around it
        (18, 6, False),
    ],
)
def test_lines(tmp_path: Path, after: int, inside: int, expected: bool) -> None:
    path = tmp_path / "train.py"
    path.write_text(SOURCE)
    assert is_past(Place(str(path), after), Place(str(path), inside)) is expected


def test_what_cannot_be_read_says_nothing(tmp_path: Path) -> None:
    gone, broken = Place(str(tmp_path / "gone.py"), 3), tmp_path / "broken.py"
    broken.write_text("while (")
    assert not is_past(gone, Place(gone.path, 1))
    assert not is_past(Place(str(broken), 3), Place(str(broken), 1))
    assert not is_past(Place(str(broken), 3), gone)
