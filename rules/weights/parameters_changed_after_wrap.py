"""DP104: parameters change after the wrap, and the wrapper's reducer does not know of it."""

from __future__ import annotations

from collections.abc import Iterator

from dpcheck.execution import TrainingRun
from dpcheck.execution.changes import Changed, changed
from dpcheck.findings.finding import Finding, Note
from dpcheck.rule import Group, Rule, Severity

RULE = Rule(
    "DP104",
    "parameters-changed-after-wrap",
    Group.WEIGHTS,
    Severity.ERROR,
    "parameters that are replaced, added, drawn anew, frozen or unfrozen after the model was wrapped",
)

_MESSAGES = {
    "set module attribute": (
        (
            "the wrapper knows the parameters that the model had when it was wrapped: those that are put in here are "
            "never reduced"
        ),
        "has no part in the reduction",
    ),
    "thawed": (
        (
            "the wrapper leaves out what was frozen when the model was wrapped: parameters that are trained from here "
            "on are never reduced"
        ),
        "trained from here on",
    ),
    "frozen": (
        (
            "the wrapper waits for the gradients of all parameters that were trained when the model was wrapped: those "
            "that are frozen here never come"
        ),
        "no gradients from here on",
    ),
    "initialise weights": (
        (
            "every rank draws these weights for itself, and the wrapper has copied rank 0's before: the ranks step "
            "different models"
        ),
        "drawn by each rank",
    ),
}


def check(run: TrainingRun) -> Iterator[Finding]:
    for case in changed(run):
        message, label = _MESSAGES[case.how]
        yield Finding(
            RULE,
            message,
            run.span(case.event.site),
            label=label,
            notes=tuple(_notes(run, case)),
            help="change the model first and wrap it then, or wrap it once more",
        )


def _notes(run: TrainingRun, case: Changed) -> Iterator[Note]:
    yield Note(run.span(case.wrap.site), f"{case.wrap.how} wraps the model here")
    if case.before is not None:
        yield Note(run.span(case.before.site), "frozen here, before the wrap")
    yield Note(run.span(case.backward.site), "trained here")
