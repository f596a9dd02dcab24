"""DP301: the loss is a mean over this rank's own targets, of which ranks hold different numbers."""

from __future__ import annotations

from collections.abc import Iterator

from dpcheck.execution import TrainingRun
from dpcheck.findings.finding import Finding
from dpcheck.rule import Group, Rule, Severity

from .terms import confidence_of, notes_of, own_collective

RULE = Rule(
    "DP301",
    "per-rank-mean",
    Group.OBJECTIVE,
    Severity.ERROR,
    "a loss averaged over each rank's own targets, of which ranks hold different numbers",
)


def check(run: TrainingRun) -> Iterator[Finding]:
    for update in run.updates:
        for judged in update.judged():
            term = judged.term
            if not judged.place.is_ratio or update.summed is None or term.explicit or term.reduction is None:
                continue
            if not term.even.is_uneven or own_collective(run, judged):
                continue
            yield Finding(
                RULE,
                "this is a mean over the rank's own targets, and the ranks' means are averaged with equal weight: a "
                "target counts for more on a rank that holds fewer",
                run.span(term.reduction),
                label="divides by this rank's number of targets",
                notes=notes_of(run, judged, term.even.evidence),
                help="sum the losses, all-reduce the number of targets, and use loss_sum * world_size / global_count",
                confidence=confidence_of(term),
            )
