"""Ignore comments at work: which findings they silence."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence

from dpcheck.findings.finding import Finding
from dpcheck.source.ignores import Ignore


@dataclasses.dataclass(frozen=True, slots=True)
class Suppression:
    """`shown` and `silenced` are the findings apart; `used` are the names in comments that silenced one."""

    shown: list[Finding]
    silenced: list[Finding]
    used: set[tuple[Ignore, str]]


def suppress(findings: Iterable[Finding], comments: Callable[[str], Sequence[Ignore]]) -> Suppression:
    """Apply the comments, which `comments` gives for a path.

    A finding is silenced at any of its spans, by the code or the name of its rule.
    """
    result = Suppression([], [], set())
    for finding in findings:
        hits = set(_hits(finding, comments))
        (result.silenced if hits else result.shown).append(finding)
        result.used.update(hits)
    return result


def _hits(finding: Finding, comments: Callable[[str], Sequence[Ignore]]) -> Iterator[tuple[Ignore, str]]:
    labels = (finding.rule.code, finding.rule.name)
    for span in (finding.span, *(note.span for note in finding.notes)):
        for ignore in comments(span.path):
            if ignore.covers(span.line):
                yield from ((ignore, name) for name in ignore.names if name in labels)
