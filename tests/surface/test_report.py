"""What a person reads is compared letter by letter, what a machine reads by value."""

from __future__ import annotations

import dataclasses
import json
import unicodedata
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcheck.findings.finding import Finding, Note, Span
from dpcheck.findings.fingerprint import fingerprints
from dpcheck.findings.result import Result
from dpcheck.report import FORMATS, render
from dpcheck.report.json import Report
from dpcheck.report.style import shown, width
from dpcheck.rule import Confidence, Group, Rule, Severity

MEAN = Rule("DP301", "per-rank-mean", Group.OBJECTIVE, Severity.ERROR, "")
EPOCH = Rule("DP203", "epoch-not-set", Group.DATA, Severity.WARNING, "")

FILES = {
    "train.py": [
        "import torch",
        "",
        "criterion = nn.CrossEntropyLoss(ignore_index=0)",
        "loader = DataLoader(",
        "    dataset,",
        "    batch_size=4,",
        "    shuffle=True,",
        ")",
        "",
        "loss = criterion(model(x), y)",
    ],
    "lib/wrap.py": ["def wrap(self):", "\treturn DDP(self.model)"],
}


def lines(path: str) -> Sequence[str]:
    return FILES.get(path, ())


def at(line: int, column: int, end_column: int, *, end_line: int = 0, path: str = "train.py") -> Span:
    return Span(path, line, column, end_line or line, end_column)


FINDING = Finding(
    MEAN,
    "each rank averages over its own targets and DDP averages these means",
    at(10, 8, 30),
    "mean over this rank's targets",
    (
        Note(at(3, 33, 47), "targets left out here"),
        Note(at(4, 10, 2, end_line=8), "the batches"),
        Note(at(2, 9, 24, path="lib/wrap.py"), "gradients are averaged here"),
    ),
    "divide by the global count",
    Confidence.MEDIUM,
)


def full(*findings: Finding, source: dict[str, list[str]] | None = None) -> str:
    text = render("full", Result(findings, 12, seconds=0.42), lines if source is None else lambda path: source[path])
    return "\n" + text


def test_full() -> None:
    assert (
        full(FINDING)
        == """
error[DP301 per-rank-mean]: each rank averages over its own targets and DDP averages these means
  --> train.py:10:8
   |
 3 | criterion = nn.CrossEntropyLoss(ignore_index=0)
   |                                 -------------- targets left out here
 4 | loader = DataLoader(
   |          ----------- the batches
...
 8 | )
   | -
 9 |
10 | loss = criterion(model(x), y)
   |        ^^^^^^^^^^^^^^^^^^^^^^ mean over this rank's targets
  ::: lib/wrap.py:2:9
   |
 2 |     return DDP(self.model)
   |            --------------- gradients are averaged here
   |
   = help: divide by the global count
   = note: confidence medium

1 error in 12 files (0.4 s)
"""
    )


def test_full_with_two_spans_on_a_line() -> None:
    finding = Finding(EPOCH, "m", at(10, 8, 30), "outer", (Note(at(10, 18, 26), "inner"),))
    assert (
        full(finding, finding)
        == 2
        * """
warning[DP203 epoch-not-set]: m
  --> train.py:10:8
   |
10 | loss = criterion(model(x), y)
   |        ^^^^^^^^^^^^^^^^^^^^^^ outer
   |                  -------- inner
"""
        + "\n2 warnings in 12 files (0.4 s)\n"
    )


def test_full_measures_wide_characters_and_tabs() -> None:
    source = {"train.py": ['\tf("日本", "e\u0301", x)']}
    assert (
        full(Finding(EPOCH, "m", at(1, 16, 17), "x"), source=source)
        == """
warning[DP203 epoch-not-set]: m
 --> train.py:1:16
  |
1 |     f("日本", "e\u0301", x)
  |                    ^ x

1 warning in 12 files (0.4 s)
"""
    )


def test_full_shows_a_window_of_a_long_line() -> None:
    line = "x" * 500 + "loss" + "y" * 500
    shown_line = full(Finding(EPOCH, "m", at(1, 501, 505), "here"), source={"train.py": [line]}).splitlines()
    assert shown_line[4] == "1 | …" + "x" * 60 + "loss" + "y" * 136 + "…"
    assert shown_line[5] == "  | " + " " * 61 + "^^^^ here"


def test_full_without_the_source() -> None:
    finding = Finding(EPOCH, "m", at(7, 1, 2, path="gone.py"), "there")
    assert (
        full(finding, source={"gone.py": []})
        == """
warning[DP203 epoch-not-set]: m
 --> gone.py:7:1: there

1 warning in 12 files (0.4 s)
"""
    )


def test_full_with_an_empty_span_still_points() -> None:
    assert "\n  | ^ nothing there" in full(Finding(EPOCH, "m", at(1, 1, 1), "nothing there"))


def test_concise() -> None:
    result = Result((FINDING, Finding(EPOCH, "no one calls set_epoch", at(4, 10, 11))), 1, suppressed=2)
    assert render("concise", result, lines) == (
        "train.py:10:8: error[DP301] each rank averages over its own targets and DDP averages these means\n"
        "train.py:4:10: warning[DP203] no one calls set_epoch\n"
        "1 error, 1 warning in 1 file, 2 suppressed (0.0 s)\n"
    )


def test_nothing_found() -> None:
    assert render("full", Result((), 3), lines) == "no findings in 3 files (0.0 s)\n"
    assert render("concise", Result((), 3), lines) == "no findings in 3 files (0.0 s)\n"


def test_json() -> None:
    result = Result((FINDING,), 12, suppressed=1, baselined=2, unreadable=3)
    assert json.loads(render("json", result, lines)) == {
        "version": 1,
        "findings": [
            {
                "code": "DP301",
                "name": "per-rank-mean",
                "severity": "error",
                "confidence": "medium",
                "message": "each rank averages over its own targets and DDP averages these means",
                "path": "train.py",
                "line": 10,
                "column": 8,
                "end_line": 10,
                "end_column": 30,
                "related": [
                    {"path": "train.py", "line": 3, "column": 33, "message": "targets left out here"},
                    {"path": "train.py", "line": 4, "column": 10, "message": "the batches"},
                    {"path": "lib/wrap.py", "line": 2, "column": 9, "message": "gradients are averaged here"},
                ],
                "fingerprint": fingerprints([FINDING], lines)[0],
                "origin": "static",
            }
        ],
        "summary": {"files": 12, "findings": 1, "suppressed": 1, "baselined": 2, "unreadable": 3},
    }


def test_json_keeps_to_its_types() -> None:
    msgspec.json.decode(render("json", Result((FINDING,), 12), lines), type=Report)


@pytest.mark.parametrize("name", FORMATS)
def test_no_report_lets_the_source_steer_the_terminal(name: str) -> None:
    finding = Finding(EPOCH, "\x1b[2J", at(1, 1, 2, path="\x1b.py"), "\u202e", help="\x07")
    text = render(name, Result((finding,), 1), lambda path: ["\x1b]0;title\x07\u202e"])
    assert not set(text) & set("\x1b\x07\u202e") or name == "json"
    assert "\x1b" not in text


def test_colours_are_only_colours() -> None:
    for name in ("full", "concise"):
        colored = render(name, Result((FINDING,), 1), lines, color=True)
        plain = render(name, Result((FINDING,), 1), lines)
        assert "\x1b[1;31m" in colored
        assert "\x1b" not in plain
        for code in ("0", "1", "1;31", "1;34"):
            colored = colored.replace(f"\x1b[{code}m", "")
        assert colored == plain


@given(st.text())
def test_shown_text_has_a_width_and_no_controls(text: str) -> None:
    assert not [char for char in shown(text) if unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp")]
    assert width(text) == width(shown(text))


@given(
    st.text("ab \t日é\u0301\x1b", max_size=30),
    st.integers(1, 40),
    st.integers(1, 40),
    st.integers(1, 4),
    st.integers(0, 3),
)
def test_full_never_fails(line: str, column: int, end_column: int, number: int, more: int) -> None:
    span = at(number, column, end_column, end_line=number + more)
    assert full(Finding(EPOCH, "m", span, "here"), source={"train.py": [line, "", line]})


def test_fingerprints_survive_moves_and_reformatting() -> None:
    moved = dataclasses.replace(FINDING, span=at(13, 12, 34))
    source = {"train.py": [*[""] * 12, "    loss  =  criterion(model(x), y)"]}
    assert fingerprints([FINDING], lines) == fingerprints([moved], source.__getitem__)


def test_fingerprints_tell_findings_apart() -> None:
    other_rule = dataclasses.replace(FINDING, rule=EPOCH)
    other_path = dataclasses.replace(FINDING, span=at(10, 8, 30, path="lib/wrap.py"))
    other_line = dataclasses.replace(FINDING, span=at(3, 1, 2))
    prints = fingerprints([FINDING, FINDING, other_rule, other_path, other_line], lines)
    assert len(set(prints)) == 5
