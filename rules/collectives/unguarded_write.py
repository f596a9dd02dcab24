"""DP503: every rank writes one and the same file."""

from __future__ import annotations

from collections.abc import Iterator

from dpcheck.execution import TrainingRun
from dpcheck.execution.facts import Site
from dpcheck.execution.files import by_ranks, is_met_by_all, is_shared
from dpcheck.execution.values import Const, Data, Instance
from dpcheck.findings.finding import Finding, Note
from dpcheck.rule import Confidence, Group, Rule, Severity

RULE = Rule(
    "DP503",
    "unguarded-write",
    Group.COLLECTIVES,
    Severity.WARNING,
    "a file that every rank writes at the same path",
)


def check(run: TrainingRun) -> Iterator[Finding]:
    if not run.complete:
        return
    seen: set[Site] = set()
    for event in run.of_kind("write"):
        if event.site in seen or not by_ranks(run, event):
            continue
        if is_shared(event.path) and all(is_met_by_all(guard) for guard in event.guards):
            seen.add(event.site)
            path = event.path
            made = path.site if isinstance(path, (Const, Data, Instance)) else None
            yield Finding(
                RULE,
                "every rank writes this file, and its path is the same on all of them: they overwrite each other, and "
                "a reader may find it torn",
                run.span(event.site),
                label="written by every rank",
                notes=(Note(run.span(made), "the path does not depend on the rank"),)
                if made is not None and run.span(made).line != run.span(event.site).line
                else (),
                help="write on one rank (if dist.get_rank() == 0), or put the rank into the name",
                confidence=Confidence.MEDIUM,
            )
