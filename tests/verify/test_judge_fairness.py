"""A reference that computed on something else than the ranks decides nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from dpcheck.verify.judge.fairness import fed_unlike
from dpcheck.verify.judge.verdict import judge
from dpcheck.verify.recording import Place, Window
from dpcheck.verify.result import Report
from tests.verify.recordings import Step, World


def window(first: Sequence[float], shape: Sequence[int] = (2, 3), inputs: Sequence[str] = ()) -> Window:
    made = Window(0, 0, "SGD", Place(), [], [], {}, forwards=1, backwards=1)
    made.first_input, made.first_shape, made.inputs = list(first), list(shape), list(inputs)
    return made


RANKS = [window([1.0, 2.0]), window([3.0, 4.0])]


@pytest.mark.parametrize(
    ("name", "reference", "fair"),
    [
        ("union", window([3.0, 4.0, 1.0, 2.0 + 1e-12], (4, 3)), True),
        ("union", window([3.0, 4.0, 1.0, 2.1], (4, 3)), False),
        ("union", window([3.0, 4.0], (2, 3)), False),
        ("sequence", window([1.0, 2.0]), True),
        ("sequence", window([3.0, 4.0]), False),
        ("window", window([9.0]), True),
        ("union", window([3.0, 4.0, 1.0, 2.1], (4, 5)), True),  # padded further
        ("union", window([]), True),  # not seen
    ],
)
def test_what_entered_the_first_forward(name: str, reference: Window, fair: bool) -> None:
    assert (fed_unlike(reference, RANKS, name) is None) is fair


def test_rows_that_no_loader_brought() -> None:
    ranks = [window([1.0], (1, 3), ["a"]), window([2.0], (1, 3), ["b"])]
    assert fed_unlike(window([1.0, 2.0], (2, 3), ["b", "a"]), ranks, "union") is None
    said = fed_unlike(window([1.0], (1, 3), ["a", "c"]), ranks, "sequence")
    assert said is not None
    assert "could not be given the batches" in said


def judged(folder: Path, entered: float, *, right: bool) -> Report:
    """Two ranks that take means of their own over uneven counts, or do it right, and what entered the reference."""
    world = World(folder)

    def of_rank(step: Step, rank: int, number: int) -> None:
        step.changes = {"first_input": [float(rank)], "first_shape": [1, 4]}

    def of_reference(step: Step, number: int) -> None:
        step.changes = {"first_input": [0.0, entered], "first_shape": [2, 4]}

    world.train(world.global_mean if right else world.mean_of_own, change=of_rank)
    world.refer(world.one_process, change=of_reference)
    return judge(world.evidence())


def test_a_difference_to_a_reference_fed_otherwise_decides_nothing(tmp_path: Path) -> None:
    assert judged(tmp_path / "same", 1.0, right=False).objective.explanation == "per-rank-mean"
    report = judged(tmp_path / "other", 5.0, right=False)
    assert report.objective.judged is False
    assert "other numbers entered" in report.objective.reason
    assert "DP301" not in {finding.code for finding in report.findings}


def test_equal_gradients_stay_equal_whatever_entered(tmp_path: Path) -> None:
    assert judged(tmp_path, 5.0, right=True).objective.equal is True
