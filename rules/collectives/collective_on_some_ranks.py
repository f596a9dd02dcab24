"""DP501: a collective stands where only some ranks come; those that come wait for the others."""

from __future__ import annotations

from collections.abc import Iterator

from dpcheck.execution import TrainingRun
from dpcheck.execution.communication import Mismatch, call_under, ranks_of, text_of
from dpcheck.findings.finding import Finding, Note
from dpcheck.rule import Group, Rule, Severity

from .ends import confidence_of, is_an_exit

RULE = Rule(
    "DP501",
    "collective-on-some-ranks",
    Group.COLLECTIVES,
    Severity.ERROR,
    "a collective, or a call that hides one, that only some ranks come to",
)


def check(run: TrainingRun) -> Iterator[Finding]:
    if not run.complete:
        return
    ranks = ranks_of(run)
    for mismatch in ranks.mismatches():
        facts, loops = mismatch.guard.facts, mismatch.communication.event.loops
        by_metric = not facts.by_number and ranks.measured(facts, loops) is not None
        if not by_metric and not is_an_exit(run, mismatch):
            yield _finding(run, mismatch)


def _finding(run: TrainingRun, found: Mismatch) -> Finding:
    communication, guard = found.communication, found.guard
    called = call_under(communication.event, guard)
    notes = [Note(run.span(guard.site), f"decided by {text_of(found.why)}: not all ranks come here")]
    if called is not None and called != communication.event.site:
        notes.append(Note(run.span(called), "this call leads to it"))
    name = f"the {communication.name} in this call" if communication.hidden else f"this {communication.name}"
    return Finding(
        RULE,
        f"{name} needs all ranks, and only those come to it for which the condition above it holds: they wait for the "
        "others",
        run.span(communication.event.site),
        label="reached by some ranks only",
        notes=tuple(notes),
        help="let every rank make this call, and keep only what one rank does with the result under the condition",
        confidence=confidence_of(found.why),
    )
