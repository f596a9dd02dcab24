"""DP302: a loss sum is divided by a count of this rank's targets that no all-reduce made global."""

from __future__ import annotations

from collections.abc import Iterator

from dpcheck.execution import TrainingRun
from dpcheck.findings.finding import Finding, Note
from dpcheck.rule import Group, Rule, Severity

from .terms import confidence_of, notes_of, own_collective

RULE = Rule(
    "DP302",
    "local-count",
    Group.OBJECTIVE,
    Severity.ERROR,
    "a loss sum divided by this rank's own count of targets",
)


def check(run: TrainingRun) -> Iterator[Finding]:
    for update in run.updates:
        for judged in update.judged():
            term = judged.term
            if not judged.place.is_ratio or update.summed is None or not term.explicit or term.reduction is None:
                continue
            if not term.even.is_uneven or own_collective(run, judged):
                continue
            count = (Note(run.span(term.count.site), term.count.text),) if term.count is not None else ()
            yield Finding(
                RULE,
                "this loss sum is divided by the rank's own count, and the ranks' results are averaged with equal "
                "weight: a target counts for more on a rank that holds fewer",
                run.span(term.reduction),
                label="the count is not all-reduced",
                notes=(*count, *notes_of(run, judged, term.even.evidence)),
                help="all-reduce the count before the division, and multiply the loss by the world size",
                confidence=confidence_of(term),
            )
