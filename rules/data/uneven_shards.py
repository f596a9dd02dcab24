"""DP210: ranks may get different numbers of batches, and nothing evens them out."""

from __future__ import annotations

from collections.abc import Iterator

from dpcheck.execution import TrainingRun
from dpcheck.execution.facts import Site
from dpcheck.execution.trips import uneven
from dpcheck.findings.finding import Finding, Note
from dpcheck.rule import Confidence, Group, Rule, Severity

RULE = Rule(
    "DP210",
    "uneven-shards",
    Group.DATA,
    Severity.WARNING,
    "data divided so that ranks may get different numbers of batches",
)


def check(run: TrainingRun) -> Iterator[Finding]:
    seen: set[Site] = set()
    for case in uneven(run):
        if case.division.site in seen:
            continue
        seen.add(case.division.site)
        yield Finding(
            RULE,
            "the ranks get parts of different size here and train until their own is used up: the one with more "
            "batches waits for ever in a reduction that the others do not join",
            run.span(case.division.site),
            label="parts of different size",
            notes=(
                Note(run.span(case.loop.site), "each rank makes as many passes as its own part allows"),
                Note(run.span(case.backward.site), "every pass needs all ranks"),
            ),
            help="cut or pad the data to a multiple of world size times batch size, agree on a number of steps, or use "
            "model.join()",
            confidence=Confidence.HIGH if case.sure else Confidence.LOW,
        )
