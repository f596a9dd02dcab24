"""DP402: the micro-batch before the step is not the one that is reduced."""

from __future__ import annotations

from collections.abc import Iterator

from dpcheck.execution import TrainingRun
from dpcheck.execution.arming import Missed, missed
from dpcheck.execution.run import escaped
from dpcheck.findings.finding import Finding, Note
from dpcheck.rule import Group, Rule, Severity

RULE = Rule(
    "DP402",
    "misplaced-no-sync",
    Group.SYNC,
    Severity.ERROR,
    "gradient accumulation that does not reduce the last micro-batch before the step",
)


def check(run: TrainingRun) -> Iterator[Finding]:
    if not run.complete:
        return
    for case in missed(run):
        reduction, switch = case.reduction, case.switch
        if escaped(reduction.wrap.wrapper) or reduction.update.partial or reduction.update.summed != 0:
            continue
        site = switch.site if switch is not None else case.forward.site
        notes = [
            Note(run.span(case.forward.site), "this forward decides whether its backward reduces"),
            Note(run.span(reduction.backward.site), "the last backward before the step"),
            Note(run.span(reduction.update.step.site), "this step takes gradients that no rank has shared"),
        ]
        yield Finding(
            RULE,
            _message(case),
            run.span(site),
            label="comes too late" if case.late else "switches the reduction off",
            notes=tuple(note for note in notes if note.span != run.span(site)),
            help="put forward and backward of all but the last micro-batch of a window inside model.no_sync()",
        )


def _message(case: Missed) -> str:
    if case.late:
        return (
            "the reduction is switched between forward and backward, but the forward has already looked at it: the "
            "micro-batch before the step is not reduced"
        )
    return "the reduction is off in the forward whose backward comes last before the step: the ranks drift apart"
