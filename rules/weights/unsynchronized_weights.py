"""DP101: nothing makes the ranks' initial weights equal."""

from __future__ import annotations

from collections.abc import Iterator

from dpcheck.execution import TrainingRun
from dpcheck.execution.run import Event
from dpcheck.findings.finding import Finding, Note
from dpcheck.rule import Group, Rule, Severity

from .initial import unhelped

RULE = Rule(
    "DP101",
    "unsynchronized-weights",
    Group.WEIGHTS,
    Severity.ERROR,
    "initial weights that nothing makes equal on all ranks",
)


def check(run: TrainingRun) -> Iterator[Finding]:
    for case in unhelped(run):
        if case.state.seeded or not case.state.place.is_local:
            continue
        yield Finding(
            RULE,
            "every rank draws its own initial weights here, and nothing makes them equal: the ranks step different "
            "models by one common gradient",
            run.span(case.model.site),
            label="built without a common seed",
            notes=(Note(run.span(case.joined.site), joins(case.joined)),),
            help="seed all ranks alike before the model is built, or broadcast rank 0's weights and buffers afterwards",
        )


def joins(event: Event) -> str:
    """What the event that makes the model data-parallel does, and does not do."""
    if event.kind == "wrap":
        return f"{event.how} copies no weights between the ranks"
    return "the gradients are reduced here; the weights are not"
