"""DP305: accumulation averages the micro-batches' own means though they hold different numbers of targets."""

from __future__ import annotations

from collections.abc import Iterator

from dpcheck.execution import TrainingRun
from dpcheck.execution.facts import Even, Scaling, Site
from dpcheck.execution.run import Judged
from dpcheck.execution.values import Const
from dpcheck.findings.finding import Finding, Note
from dpcheck.rule import Group, Rule, Severity

from .terms import confidence_of

RULE = Rule(
    "DP305",
    "mean-of-micro-batch-means",
    Group.OBJECTIVE,
    Severity.ERROR,
    "accumulated micro-batches are averaged each over its own targets, of which they hold different numbers",
)


def check(run: TrainingRun) -> Iterator[Finding]:
    for update in run.updates:
        if not update.accumulates or update.summed is None:
            continue
        for judged in update.judged():
            term = judged.term
            division = _division(judged)
            mean = _micro_batch_mean(run, judged)
            if division is None or mean is None:
                continue
            even, reduction = mean
            yield Finding(
                RULE,
                "this averages the micro-batches' own means with equal weight: a target counts for more in a "
                "micro-batch that holds fewer",
                run.span(division.site),
                label="each micro-batch counts the same",
                notes=(
                    Note(run.span(reduction), "the mean of one micro-batch"),
                    *(Note(run.span(each.site), each.text) for each in even.evidence),
                ),
                help="all-reduce the count of the whole window's targets first, and use loss_sum * world_size / count",
                confidence=confidence_of(term),
            )


def _micro_batch_mean(run: TrainingRun, judged: Judged) -> tuple[Even, Site] | None:
    """Where a term is divided by the targets of one micro-batch, this rank's or all ranks', if that count varies."""
    term = judged.term
    if judged.place.is_ratio:
        return (term.even, term.reduction) if term.even.is_uneven and term.reduction is not None else None
    inside = judged.backward.loops
    for scaling in judged.scalings:
        if scaling.reduced is None or not scaling.summed.is_uneven:
            continue
        counted = next((e for e in run.of_kind("collective") if e.site == scaling.reduced), None)
        if counted is not None and counted.loops == inside:
            return scaling.summed, scaling.site
    return None


def _division(judged: Judged) -> Scaling | None:
    """The division by the number of micro-batches, which scales with W as that number does; not by a global count."""
    repeats = judged.repeats or 0
    found = [s for s in judged.scalings if _divides(s) and s.world == -repeats and s.reduced is None]
    return found[-1] if found else None


def _divides(scaling: Scaling) -> bool:
    """A division, or a multiplication by a written fraction."""
    value = scaling.value.value if isinstance(scaling.value, Const) else None
    return scaling.divides or (isinstance(value, float) and 0 < value < 1)
