"""DP605: a schedule is made for W times as many steps as the run takes, or for one W-th of them."""

from __future__ import annotations

from collections.abc import Iterator

from dpcheck.execution import TrainingRun
from dpcheck.execution.run import Event
from dpcheck.execution.schedules import Schedule, schedules
from dpcheck.execution.values import Instance, is_true
from dpcheck.findings.finding import Finding, Note
from dpcheck.rule import Confidence, Group, Rule, Severity

RULE = Rule(
    "DP605",
    "schedule-off-by-world-size",
    Group.COUNTING,
    Severity.WARNING,
    "a schedule whose length leaves out the number of ranks, or counts it twice",
)
_PLATEAU = "torch.optim.lr_scheduler.ReduceLROnPlateau"


def check(run: TrainingRun) -> Iterator[Finding]:
    if not run.complete:
        return
    for schedule in schedules(run):
        if schedule.length != schedule.steps:
            yield _finding(run, schedule, _prepared(run, schedule.made))
    for event in run.of_kind("prepare scheduler"):
        if isinstance(event.subject, Instance) and event.subject.is_a(_PLATEAU) and is_true(event.multiplies):
            yield _of_plateau(run, event)


def _prepared(run: TrainingRun, made: Event) -> Event | None:
    return next((event for event in run.of_kind("prepare scheduler") if event.subject is made.subject), None)


def _finding(run: TrainingRun, schedule: Schedule, prepared: Event | None) -> Finding:
    power = schedule.length - schedule.steps
    factor = "W" if abs(power) == 1 else f"W^{abs(power)}"
    much = (
        f"{factor} times as many steps as the run takes" if power > 0 else f"1/{factor} of the steps that the run takes"
    )
    end = "training is over before the schedule is" if power > 0 else "the schedule is over before training is"
    notes = [Note(run.span(schedule.loop.site), "the loop whose passes step it")]
    if prepared is not None:
        notes.append(Note(run.span(prepared.site), "prepared here: one step for each rank each time"))
    return Finding(
        RULE,
        f"this schedule is made for {much} on W ranks: {end}",
        run.span(schedule.made.site),
        label="its length",
        notes=tuple(notes),
        help="count the batches of one rank (len(loader) of the loader that is shared out), times the number of "
        "processes for a scheduler that Accelerate prepares",
        confidence=Confidence.MEDIUM,
    )


def _of_plateau(run: TrainingRun, prepared: Event) -> Finding:
    notes = (Note(run.span(prepared.subject.site), "the scheduler"),) if prepared.subject.site is not None else ()
    return Finding(
        RULE,
        "a prepared ReduceLROnPlateau counts every evaluation once for each rank: its patience ends after 1/W of it",
        run.span(prepared.site),
        label="one step for each rank each time",
        notes=notes,
        help="leave this scheduler out of prepare, and step it by the metric of all ranks",
        confidence=Confidence.MEDIUM,
    )
