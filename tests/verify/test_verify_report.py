"""What a person reads of a verification, letter by letter, and what a machine reads."""

# ruff: noqa: E501

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from dpcheck.verify.judge.merge import merge
from dpcheck.verify.judge.verdict import judge
from dpcheck.verify.recording import Failure, Note, Place
from dpcheck.verify.report import render
from dpcheck.verify.result import EXIT_STATUS, Measured, Report
from tests.verify.recordings import PerRank, World, fetches, loader, reduction, script_collective
from tests.verify.test_judge_endings import FINISHED, ended, hung, static

SOURCE = [""] * 40 + ["    loss = F.cross_entropy(model(x), y)"] + [""] * 19 + ["    dist.barrier()"]


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def lines(path: str) -> Sequence[str]:
    return SOURCE if path == "/project/train.py" else ()


def text(report: Report) -> str:
    report.seconds = 1.53
    return "\n" + render("full", report, lines)


def trained(tmp_path: Path, *, right: bool) -> Report:
    world = World(tmp_path)
    taken = PerRank(fetches([[rank * 2], [rank * 2 + 1]]) for rank in range(2))

    def reading(step, rank: int, number: int) -> None:
        step.changes = {"fetches": [number]}

    notes = [Note("dropout", "dropout was left out of the models", Place("/project/model.py", 9))]
    weight = world.global_mean if right else world.mean_of_own
    world.train(weight, change=reading, fetches=taken, loaders=[loader(batch_size=1)], notes=notes)
    return judge(world.refer(world.one_process, noise=0).evidence())


def test_equivalent(tmp_path: Path) -> None:
    report = merge(trained(tmp_path, right=True), [static("DP203", 38)])
    assert report.objective.relative_error is not None
    report.objective.relative_error = 1.2e-15
    report.detection.smallest_weight_error = 1.1e-8
    assert (
        text(report)
        == """
equivalent: the 2 ranks together computed the update of one process in 2 steps
/project/train.py: 2 ranks, 2 steps, float64; 1.5 s

  weights      equal when the models were built and before every step
  data         disjoint: 2 + 2 samples
  objective    equal: the gradients are those of one process, to rounding (error 1.2e-15, tolerance
               1e-08)
               targets: 9 + 3; weight of a target in the update, by rank: 0.08333 | 0.08333
  sync         exact: the gradients are the mean of the ranks' own, bit for bit
  collectives  the same on all ranks: 1 collective and 312 B a step
  counting     1 sample × 1 micro-batch × 2 ranks = 2 samples an update

found in the source
  - DP203 epoch-not-set at /project/train.py:38: not exercised, one pass was not enough: try
    --epochs 2

what would have been seen
  - an error of 1.1e-08 and more in one rank's weight in the mean
  - a mean over each rank's own targets: the gradients would be off by 54 %
  - judged: 2 steps, 39 of 39 parameters, the losses of cross_entropy at /project/train.py:41

notes on this run
  - dropout was left out of the models (/project/model.py:9)
"""
    )


def test_different(tmp_path: Path) -> None:
    report = merge(trained(tmp_path, right=False), [static("DP301", 41)])
    report.detection.smallest_weight_error = 1.1e-8
    assert (
        text(report)
        == """
different: each rank averages over its own targets, and these means are averaged although the counts differ
/project/train.py: 2 ranks, 2 steps, float64; 1.5 s

  weights      equal when the models were built and before every step
  data         disjoint: 2 + 2 samples
  objective    different in step 1: every rank takes the mean over its own targets, and the means
               are averaged although the counts differ: each of rank 1's targets weighs 3 × each of
               rank 0's
               error 54 %, tolerance 1e-08; the gradient is 0.8938 times that of one process, but
               for 51 %
               targets: 9 + 3; weight of a target in the update, by rank: 0.05556 | 0.1667
               worst tensors: embed.weight 66 %, head.weight 47 %, head.bias 22 %
               by step: 48 %, 54 %
  sync         exact: the gradients are the mean of the ranks' own, bit for bit
  collectives  the same on all ranks: 1 collective and 312 B a step
  counting     1 sample × 1 micro-batch × 2 ranks = 2 samples an update

error[DP301 per-rank-mean]: each rank averages over its own targets, and these means are averaged although the counts differ
  --> /project/train.py:41:9
   |
41 |     loss = F.cross_entropy(model(x), y)
   |         ^^^^^^^^^^^^^^^^^^^^^
   |
   = help: mend it
   = measured: targets: rank 0 9, rank 1 3
   = measured: one process weighs the ranks' gradients by 0.75, 0.25, the ranks weighed them alike
   = measured: each of rank 1's targets weighs 3 × each of rank 0's
   = note: dpcheck check finds it in the source as well

what would have been seen
  - an error of 1.1e-08 and more in one rank's weight in the mean
  - judged: 2 steps, 39 of 39 parameters, the losses of cross_entropy at /project/train.py:41

notes on this run
  - dropout was left out of the models (/project/model.py:9)
"""
    )


def test_a_hang(tmp_path: Path) -> None:
    calls = PerRank(
        [
            [reduction(0), script_collective("barrier", 61, 1, finished=False)],
            [reduction(0), reduction(1, finished=False)],
        ]
    )
    hanging = (hung("dist.barrier", 61), hung("DDP's all_reduce"))
    assert (
        text(ended(tmp_path, (1, 1), ("cut", "cut"), hanging, collectives=calls))
        == """
hang: rank 0 waits in barrier at /project/train.py:61; rank 1 waits in the wrapper's all_reduce at /project/train.py:42
/project/train.py: 2 ranks, 1 step, float64; 1.5 s

  rank 0       waits inside dist.barrier at /project/train.py:61, after 1 step
  rank 1       waits inside DDP's all_reduce at /project/train.py:42, after 1 step

error[DP501 collective-on-some-ranks]: barrier is reached by rank 0 and never by rank 1
  --> /project/train.py:61:5
   |
42 |
   | - rank 1 is here meanwhile
...
61 |     dist.barrier()
   |     ^^^^^^^^^^^^^^
   |
   = help: let every rank reach it, or none
   = measured: rank 0: barrier at /project/train.py:61; rank 1: all_reduce(SUM) of float64 [39] of the wrapper at /project/train.py:42
   = note: from outside this looks like DP502 or DP505 as well
"""
    )


def test_an_error_of_the_script(tmp_path: Path) -> None:
    failure = Failure(
        "ValueError",
        "no such column",
        "Traceback (most recent call last):\n  …\nValueError: x",
        Place("/project/train.py", 41),
    )
    report = ended(tmp_path, (1, 1), ("ended", "raised"), (FINISHED, FINISHED), failure=PerRank([None, failure]))
    assert (
        text(report)
        == """
script-error: rank 1 raised ValueError: no such column at /project/train.py:41
/project/train.py: 2 ranks, 1 step, float64; 1.5 s

  rank 0       came to the end of the script, after 1 step
  rank 1       raised an exception at /project/train.py:41, after 1 step: ValueError: no such column
               | Traceback (most recent call last):
               |   …
               | ValueError: x
"""
    )


def test_text_from_the_script_cannot_steer_the_terminal(tmp_path: Path) -> None:
    failure = Failure("ValueError", "\x1b[2Jgone", "\x1b[2J", Place("/project/\x1btrain.py", 41))
    report = ended(tmp_path, (1, 1), ("raised", "raised"), failure=failure)
    assert "\x1b" not in text(report)
    assert "\x1b[1;33mscript-error\x1b[0m" in render("full", report, lines, color=True)


def test_json(tmp_path: Path) -> None:
    report = merge(trained(tmp_path, right=False), [static("DP301", 41)])
    document = json.loads(render("json", report, lines))
    assert {key: document[key] for key in ("version", "verdict", "ranks", "steps", "dtype")} == {
        "version": 1,
        "verdict": "different",
        "ranks": 2,
        "steps": 2,
        "dtype": "float64",
    }
    assert document["weights"]["initial"] == document["weights"]["after_steps"] == "equal"
    assert (document["data"]["disjoint"], document["data"]["overlap"], document["data"]["samples"]) == (True, 0, [2, 2])
    assert document["objective"]["explanation"] == "per-rank-mean"
    assert document["objective"]["tolerance"] == 1e-8
    assert document["objective"]["k"] == pytest.approx(0.8938, abs=1e-4)
    assert document["objective"]["target_weights"] == [[0.0555556], [0.166667]]
    assert document["sync"]["exact"] is True
    assert (document["collectives"]["matched"], document["collectives"]["bytes_per_step"]) == (True, 312)
    assert document["global_batch"] == {"microbatch": 1, "accumulation": 1, "ranks": 2, "samples": 2}
    [finding] = document["findings"]
    assert {key: finding[key] for key in ("code", "path", "line", "origin", "static")} == {
        "code": "DP301",
        "path": "/project/train.py",
        "line": 41,
        "origin": "measured",
        "static": "confirmed",
    }
    assert len(finding["fingerprint"]) == 16


def test_json_is_what_its_types_say(tmp_path: Path) -> None:
    report = trained(tmp_path, right=False)
    report.objective.relative_error = float("inf")
    document = render("json", report, lines)
    assert json.loads(document)["objective"]["relative_error"] is None
    read = msgspec.json.decode(document, type=Report)
    assert read.findings[0].code == "DP301"


def test_a_line_without_columns_is_underlined_whole() -> None:
    finding = Measured(
        code="DP502", name="rank-dependent-exit", severity="error", confidence="high", message="m",
        path="/project/train.py", line=41, end_line=41,
    )  # fmt: skip
    report = Report(verdict="hang", reason="r", ranks=2, steps=0, dtype="float64", findings=[finding])
    assert "41 |     loss = F.cross_entropy(model(x), y)\n   |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n" in text(
        report
    )


def test_exit_statuses() -> None:
    assert {verdict for verdict, status in EXIT_STATUS.items() if status == 1} == {"different", "mismatch", "hang"}
    assert {verdict for verdict, status in EXIT_STATUS.items() if status == 2} == {"inconclusive", "script-error"}
    assert EXIT_STATUS["equivalent"] == 0
