"""Rules that look for words in the source, so that the surface is tested apart from what the real rules find."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from dpcheck import check, registry
from dpcheck.findings.finding import Finding, Note, Span
from dpcheck.program.link import Program
from dpcheck.rule import Confidence, Group, Rule, Severity

BAD = Rule("XX301", "bad-word", Group.OBJECTIVE, Severity.ERROR, "a bad word")
ODD = Rule("XX302", "odd-word", Group.OBJECTIVE, Severity.WARNING, "an odd word")
FINE = Rule("XX401", "fine-print", Group.SYNC, Severity.NOTE, "a matter of taste", pedantic=True)


@dataclasses.dataclass(frozen=True)
class Run:
    """Stands for a training run: the lines of the entry file."""

    path: str
    lines: list[str]

    @property
    def entry(self) -> Run:
        return self


def word(rule: Rule, text: str):
    """A check that finds `text`; a line with SEE is related, GUESS lowers the confidence, CRASH is a fault."""

    def found(run: Run) -> Iterator[Finding]:
        notes = tuple(
            Note(Span(run.path, number, 1, number, 4), "seen here")
            for number, line in enumerate(run.lines, 1)
            if "SEE" in line
        )
        for number, line in enumerate(run.lines, 1):
            if "CRASH" in line:
                raise RuntimeError("the rule broke")
            column = line.find(text) + 1
            if column:
                span = Span(run.path, number, column, number, column + len(text))
                confidence = Confidence.LOW if "GUESS" in line else Confidence.HIGH
                yield Finding(rule, f"this line says {text}", span, "here", notes, "leave it out", confidence)

    return found


@pytest.fixture
def rules(monkeypatch: pytest.MonkeyPatch) -> registry.Registry:
    """Put these rules, beside the hygiene rules, in the place of the installed ones."""

    class Execution:
        def __init__(self, program: Program) -> None:
            self.parts = (self.script,)

        def script(self, unit):
            text = Path(unit.path).read_text("utf-8")
            if "EXPLODE" in text:
                raise RecursionError("the interpreter broke")
            yield Run(unit.display, text.splitlines())

    hygiene = [entry for entry in registry.load().entries if entry.rule.group is Group.HYGIENE]
    words = [(BAD, "BAD"), (ODD, "ODD"), (FINE, "FINE")]
    fake = registry.Registry(
        [*hygiene, *(registry.Entry(rule, word(rule, text), Path("none.md")) for rule, text in words)]
    )
    monkeypatch.setattr(registry, "load", lambda: fake)
    monkeypatch.setattr(check, "Execution", Execution)
    monkeypatch.setattr(Program, "entries", property(lambda self: self.units))
    return fake


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
