"""DP308: the count that divides the loss is added up over another process group than the gradients."""

from __future__ import annotations

from collections.abc import Iterator

from dpcheck.execution import TrainingRun
from dpcheck.findings.finding import Finding, Note
from dpcheck.rule import Confidence, Group, Rule, Severity

from .groups import WORLD, Members, of_gradients, reduced_over
from .terms import reducers

RULE = Rule(
    "DP308",
    "wrong-reduction-group",
    Group.OBJECTIVE,
    Severity.ERROR,
    "a count that is reduced over another process group than the gradients",
)


def check(run: TrainingRun) -> Iterator[Finding]:
    for update in run.updates:
        used = of_gradients(run, update)
        if update.summed is None or used is None:
            continue
        for judged in update.judged():
            for scaling in judged.scalings:
                if scaling.reduced is None:
                    continue
                counted = reduced_over(run, scaling.reduced)
                if counted is None or counted == used:
                    continue
                yield Finding(
                    RULE,
                    f"this count is added up over {_name(counted)}, the gradients are averaged over {_name(used)}: "
                    "where the two differ, the loss is divided by the wrong count",
                    run.span(scaling.reduced),
                    label=_name(counted),
                    notes=(Note(run.span(scaling.site), "the loss is scaled by it here"), *reducers(run, update)),
                    help="reduce the count over the group that the gradients are averaged over",
                    confidence=Confidence.HIGH if len(counted) == 1 else Confidence.MEDIUM,
                )


def _name(group: Members) -> str:
    return WORLD if group == {WORLD} else "a process group of its own"
