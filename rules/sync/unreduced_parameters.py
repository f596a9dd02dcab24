"""DP404: an optimizer steps parameters whose gradients nothing reduces over the ranks."""

from __future__ import annotations

from collections.abc import Iterator

from dpcheck.execution import TrainingRun
from dpcheck.execution.coverage import Unreduced, unreduced
from dpcheck.execution.facts import Site
from dpcheck.findings.finding import Finding, Note
from dpcheck.rule import Group, Rule, Severity

RULE = Rule(
    "DP404",
    "unreduced-parameters",
    Group.SYNC,
    Severity.ERROR,
    "an optimizer that steps parameters whose gradients nothing reduces",
)


def check(run: TrainingRun) -> Iterator[Finding]:
    for case in unreduced(run):
        site = _loop(case) or case.made.site
        notes = [Note(run.span(case.update.step.site), "stepped here")]
        if case.beside is None:
            notes += [Note(run.span(e.site), f"{e.how} wraps another module") for e in run.of_kind("wrap")[:1]]
        else:
            notes.append(Note(run.span(case.made.site), "the optimizer holds them all"))
        if case.module.site is not None:
            notes.append(Note(run.span(case.module.site), "these parameters are left out"))
        yield Finding(
            RULE,
            "some of the parameters that are stepped are reduced over the ranks, others are not: those drift apart",
            run.span(site),
            label="not all of its gradients are reduced" if case.beside is None else "reduces only a part of the model",
            notes=tuple(note for note in notes if note.span != run.span(site)),
            help="wrap every module that is trained, or reduce the gradients of all parameters in the optimizer",
        )


def _loop(case: Unreduced) -> Site | None:
    """The loop (or call) that reduces the gradients of some parameters by hand."""
    event = case.beside
    if event is None:
        return None
    own = event.loops[len(case.update.step.loops) :]
    return own[-1].site if own else event.site
