"""DP303: a sum over a global count (or a mean divided by W) is averaged over the ranks once more."""

from __future__ import annotations

from collections.abc import Iterator

from dpcheck.execution import TrainingRun
from dpcheck.execution.facts import Scaling
from dpcheck.execution.run import Judged
from dpcheck.findings.finding import Finding, Note
from dpcheck.rule import Group, Rule, Severity

from .terms import notes_of, own_collective

RULE = Rule(
    "DP303",
    "missing-world-size-factor",
    Group.OBJECTIVE,
    Severity.WARNING,
    "a loss that is already divided by what all ranks hold is averaged over the ranks again",
)


def check(run: TrainingRun) -> Iterator[Finding]:
    for update in run.updates:
        for judged in update.judged():
            if judged.world is None or judged.world >= 0 or own_collective(run, judged):
                continue
            if not (judged.counted or judged.place.is_ratio):
                continue
            cause = _cause(judged)
            if cause is None:
                continue
            reduced = (
                (Note(run.span(cause.reduced), "summed over the ranks here"),) if cause.reduced is not None else ()
            )
            yield Finding(
                RULE,
                "this division covers all ranks already, and the gradients are averaged over the ranks on top: they "
                "come out world_size times too small",
                run.span(cause.site),
                label="already over all ranks",
                notes=(*reduced, *notes_of(run, judged)),
                help="multiply the loss by the world size, or do not divide by it here",
            )


def _cause(judged: Judged) -> Scaling | None:
    """The factor that took away the power of W."""
    shrinking = [s for s in judged.scalings if s.world < 0]
    return shrinking[-1] if shrinking else None
