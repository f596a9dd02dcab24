"""`# want: DP301` comments: where a finding of that rule must have one of its spans begin."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from pathlib import Path

from dpcheck import registry
from dpcheck.check import check
from dpcheck.config import Settings
from dpcheck.findings.finding import Finding

WANT = re.compile(rb"#\s*want:\s*((?:DP\d{3}[\s,]*)+)")
NEWLINE = re.compile(rb"\r\n|\n|\r")

Want = tuple[str, int, str]
"""File name relative to the folder, line, code."""


@dataclasses.dataclass(frozen=True)
class Score:
    """`missed` wants and `extra` findings; a right answer has neither."""

    missed: list[Want]
    extra: list[str]
    findings: tuple[Finding, ...]


def wants(folder: Path, files: Iterable[Path]) -> set[Want]:
    """The wants written in the files, with names relative to `folder`."""
    return {
        (file.relative_to(folder).as_posix(), number, code)
        for file in files
        for number, line in enumerate(NEWLINE.split(file.read_bytes()), 1)
        if (match := WANT.search(line))
        for code in re.findall(r"DP\d{3}", match[1].decode())
    }


def score(folder: Path, target: Path, extend_select: tuple[str, ...] = ()) -> Score:
    """Check `target`, a file or folder in `folder`, which is the current directory, and compare with its wants."""
    files = sorted(target.rglob("*.py")) if target.is_dir() else [target]
    wanted = wants(folder, files)
    settings = Settings(root=folder, overlay=registry.Selectors(extend_select=extend_select), cache=False)
    result = check([target], settings, registry.load())
    assert not result.errors, result.errors[0].traceback
    met: set[Want] = set()
    extra = []
    for finding in result.findings:
        hits = places(finding) & wanted
        met |= hits
        if not hits:
            extra.append(f"{finding.span.path}:{finding.span.line} {finding.rule.code} {finding.message}")
    return Score(sorted(wanted - met), extra, result.findings)


def places(finding: Finding) -> set[Want]:
    spans = (finding.span, *(note.span for note in finding.notes))
    return {(span.path, span.line, finding.rule.code) for span in spans}
