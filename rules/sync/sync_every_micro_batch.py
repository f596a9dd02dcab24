"""DP405: gradients are reduced after every micro-batch, though only the last reduction of a window counts."""

from __future__ import annotations

from collections.abc import Iterator

from dpcheck.execution import TrainingRun
from dpcheck.execution.run import Event, Update, accumulation, escaped
from dpcheck.execution.values import Const, Data, Value
from dpcheck.findings.finding import Finding, Note
from dpcheck.rule import Group, Rule, Severity

RULE = Rule(
    "DP405",
    "sync-every-micro-batch",
    Group.SYNC,
    Severity.NOTE,
    "gradient accumulation that reduces the gradients after every micro-batch",
    pedantic=True,
)


def check(run: TrainingRun) -> Iterator[Finding]:
    for update in run.updates:
        if not update.accumulates or any(_is_one(count) for count in accumulation(update)):
            continue
        wraps = [e for e in update.wraps if e.how in ("DDP", "apex DDP") and not escaped(e.wrapper)]
        armed = [_arming(run, update, wraps, backward) for backward in update.backwards]
        if not wraps or not armed or not all(event is not None and _is_true(event.syncs) for event in armed):
            continue
        for backward, forward in zip(update.backwards, armed, strict=False):
            if forward is None:
                continue
            yield Finding(
                RULE,
                "this backward reduces the gradients of every micro-batch over the ranks, though they are only used "
                "when the optimizer steps",
                run.span(backward.site),
                label="reduces each time",
                notes=(
                    Note(run.span(forward.site), "this forward arms the reduction"),
                    Note(run.span(update.step.site), "the step that uses the sum of them"),
                    Note(run.span(wraps[0].site), f"{wraps[0].how} reduces during backward"),
                ),
                help="put forward and backward of all but the last micro-batch inside model.no_sync()",
            )


def _arming(run: TrainingRun, update: Update, wraps: list[Event], backward: Event) -> Event | None:
    """The last wrapped forward before a backward: it decides whether the backward reduces."""
    wrappers = [event.wrapper for event in wraps]
    forwards = [
        event
        for event in run.of_kind("forward")
        if event.order < backward.order and any(event.subject is wrapper for wrapper in wrappers)
    ]
    return forwards[-1] if forwards else None


def _is_true(value: Value | None) -> bool:
    return isinstance(value, Const) and value.value is True


def _is_one(count: Value | None) -> bool:
    """One micro-batch a step, unless the user asks for more."""
    if isinstance(count, Data):
        count = count.default
    return isinstance(count, Const) and count.value == 1
