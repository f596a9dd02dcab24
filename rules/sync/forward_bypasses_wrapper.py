"""DP401: the loss comes from a forward that goes around the wrapper, so the backward reduces nothing."""

from __future__ import annotations

from collections.abc import Iterator

from dpcheck.execution import TrainingRun
from dpcheck.execution.arming import Reduction, entrance, reductions
from dpcheck.execution.freezing import is_frozen
from dpcheck.execution.run import escaped, parts_of, unwrapped
from dpcheck.findings.finding import Finding, Note
from dpcheck.rule import Group, Rule, Severity

RULE = Rule(
    "DP401",
    "forward-bypasses-wrapper",
    Group.SYNC,
    Severity.ERROR,
    "a loss from a forward that does not go through the data-parallel wrapper",
)


def check(run: TrainingRun) -> Iterator[Finding]:
    if not run.complete:
        return
    for reduction in reductions(run):
        update, wrap, backward = reduction.update, reduction.wrap, reduction.backward
        if reduction.wrapped or reduction.forwards or escaped(wrap.wrapper) or update.partial:
            continue
        if not _is_stepped(run, reduction) or _is_reduced_otherwise(run, reduction):
            continue
        trained = [module for module in reduction.bare if is_frozen(run, module, backward) is False]
        site = entrance(run, reduction)
        if not trained or site is None:
            continue
        notes = [Note(run.span(wrap.site), f"{wrap.how} wraps the model here")]
        notes.append(Note(run.span(backward.site), "this backward reduces nothing: no wrapped forward came before it"))
        yield Finding(
            RULE,
            "this forward goes around the wrapper, whose reduction is therefore not armed: every rank steps by its "
            "own gradients",
            run.span(site),
            label="through the module inside",
            notes=tuple(notes),
            help="call the wrapped model in training, and let its forward return all that the loss needs",
        )


def _is_stepped(run: TrainingRun, reduction: Reduction) -> bool:
    """Does an optimizer step the weights by these gradients?"""
    step, backward = reduction.update.step, reduction.backward
    if step.kind != "step" or any(guard.by_rank for guard in (*step.guards, *backward.guards)):
        return False
    owners = run.owners(step.subject)
    inside = {id(part) for part in parts_of(unwrapped(reduction.wrap.subject))}
    if not owners or not inside.isdisjoint(owners) or id(None) in owners:
        cleared = [e for e in run.of_kind("zero grad") if backward.order < e.order < step.order]
        return not any(e.guards == backward.guards and _clears(run, e.subject, owners, inside) for e in cleared)
    return False


def _clears(run: TrainingRun, subject: object, owners: set[int], inside: set[int]) -> bool:
    """Does `zero_grad` of a module or an optimizer throw these gradients away?"""
    cleared = {id(part) for part in parts_of(subject)} | run.owners(subject)
    return not cleared.isdisjoint(inside if not owners else owners & inside)


def _is_reduced_otherwise(run: TrainingRun, reduction: Reduction) -> bool:
    """Are the gradients averaged by hand, or does another wrapper around the model do it?"""
    bare = {id(module) for module in reduction.bare}
    for event in reduction.update.reductions:
        if any(id(part) in bare for owner in event.subject or () for part in parts_of(unwrapped(owner))):
            return True
    for wrap in run.of_kind("wrap"):
        if wrap is not reduction.wrap and not wrap.armed and wrap.averages:
            if any(id(part) in bare for part in parts_of(unwrapped(wrap.subject))):
                return True
    return False
