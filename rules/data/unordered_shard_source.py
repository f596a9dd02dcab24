"""DP207: what is divided among the ranks has no fixed order."""

from __future__ import annotations

from collections.abc import Iterator

from dpcheck.execution import TrainingRun
from dpcheck.execution.divisions import origins
from dpcheck.execution.facts import Site, SourceKind
from dpcheck.execution.sharding import divisions
from dpcheck.findings.finding import Finding, Note
from dpcheck.rule import Confidence, Group, Rule, Severity

RULE = Rule(
    "DP207",
    "unordered-shard-source",
    Group.DATA,
    Severity.WARNING,
    "a listing or set without a fixed order that is divided among the ranks",
)


def check(run: TrainingRun) -> Iterator[Finding]:
    if not run.complete:
        return
    seen: set[Site] = set()
    for division in divisions(run):
        for source in origins(division.facts):
            if source.kind is not SourceKind.LISTING or source.site is None or source.site in seen:
                continue
            seen.add(source.site)
            yield Finding(
                RULE,
                "nothing fixes the order of this listing, and the ranks divide it by position: one that lists it in "
                "another order takes examples that belong to others",
                run.span(source.site),
                label="no fixed order",
                notes=(Note(run.span(division.by.site), "divided among the ranks here"),),
                help="sort it first: sorted(...)",
                confidence=Confidence.HIGH if division.loader is None else Confidence.MEDIUM,
            )
