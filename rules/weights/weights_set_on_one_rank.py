"""DP103: weights, buffers or optimizer state are set on some ranks only, and nothing hands them to the others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dpcheck.execution import TrainingRun
from dpcheck.execution.facts import Site
from dpcheck.execution.run import Event, escaped, parts_of, unwrapped
from dpcheck.execution.states import registered
from dpcheck.execution.values import Instance, is_false
from dpcheck.findings.finding import Finding, Note
from dpcheck.rule import Group, Rule, Severity

RULE = Rule(
    "DP103",
    "weights-set-on-one-rank",
    Group.WEIGHTS,
    Severity.ERROR,
    "weights, buffers or optimizer state that only some ranks load, initialise or edit",
)

_WHAT = {
    "load weights": "the weights are loaded",
    "initialise weights": "the weights are set",
    "update state": "a buffer is set",
    "load optimizer": "the optimizer's state is loaded",
}


def check(run: TrainingRun) -> Iterator[Finding]:
    if not run.complete:
        return
    seen: set[Site] = set()
    for event in run.of_kind(*_WHAT):
        guard = next((guard for guard in event.guards if guard.facts.by_number), None)
        if guard is None or event.site in seen or _is_done_by_the_others(run, event):
            continue
        owners = event.subject if isinstance(event.subject, tuple) else (event.subject,)
        objects = [unwrapped(owner) for owner in owners]
        if any(not isinstance(each, Instance) or escaped(each) for each in objects):
            continue
        if not _is_trained_later(run, event, objects) or _reaches_all(run, event, objects):
            continue
        seen.add(event.site)
        wraps = [e for e in run.of_kind("wrap") if e.order < event.order and _share(objects, e.subject)]
        notes = [Note(run.span(guard.site), "only some ranks come here")]
        if event.kind != "load optimizer":
            notes += [
                Note(run.span(e.site), f"{e.how} copies weights when it is made, which was before") for e in wraps
            ]
        yield Finding(
            RULE,
            f"{_WHAT[event.kind]} on some ranks only, and nothing hands the result to the others",
            run.span(event.site),
            label="not on every rank",
            notes=tuple(notes),
            help="do it on every rank, or before the model is wrapped, or broadcast the result",
        )


def _is_done_by_the_others(run: TrainingRun, event: Event) -> bool:
    """Does the other side of the condition do the same?"""
    return any(
        other.kind == event.kind
        and other.subject == event.subject
        and any(a.site == b.site and a.holds is not b.holds for a in event.guards for b in other.guards)
        for other in run.of_kind(event.kind)
    )


def _share(objects: list[Any], other: Any) -> bool:
    """Is one a part of the other?"""
    inside = {id(part) for part in parts_of(unwrapped(other))}
    held = {id(part) for each in objects for part in parts_of(each)}
    return any(id(each) in inside for each in objects) or id(unwrapped(other)) in held


def _is_trained_later(run: TrainingRun, event: Event, objects: list[Any]) -> bool:
    """Does a data-parallel update of the model (or optimizer) come after it?"""
    for update in run.updates:
        step = update.step
        again = any(loop in step.loops for loop in event.loops)
        if update.summed is None or (step.order < event.order and not again):
            continue
        if any(guard.by_rank for guard in step.guards):
            continue
        if event.kind == "load optimizer":
            if step.subject is event.subject:
                return True
        elif any(_share(objects, module) for backward in update.backwards for module in backward.modules):
            return True
    return False


def _reaches_all(run: TrainingRun, event: Event, objects: list[Any]) -> bool:
    """Does a broadcast, or a wrap that copies weights, come after it?"""
    if event.kind == "load optimizer":
        told = run.of_kind("broadcast optimizer")
        return any(e.order > event.order and e.subject is event.subject for e in told) or _is_sharded(run, objects)
    for other in run.of_kind("broadcast weights", "wrap"):
        if other.kind == "broadcast weights":
            if other.order > event.order and any(_share(objects, owner) for owner in other.subject or ()):
                return True
        elif _share(objects, other.subject):
            kept = is_false(other.options.get("broadcast_buffers"))
            if other.shards is not False and other.order < event.order:
                return True
            if other.order > event.order and other.broadcasts is not False:
                return not (kept and _sets_buffers(event, objects))
            if event.kind == "update state" and other.armed and not kept:
                return True  # the next forward copies rank 0's
    return False


def _is_sharded(run: TrainingRun, objects: list[Any]) -> bool:
    owners = [owner for each in objects for owner in run.owning(each)]
    return any(wrap.shards is not False and _share(owners, wrap.subject) for wrap in run.of_kind("wrap"))


def _sets_buffers(event: Event, objects: list[Any]) -> bool:
    """Are there buffers among what is set?"""
    if event.kind == "update state":
        return True
    parts = [part for each in objects for part in parts_of(each)]
    return event.kind == "load weights" and any(
        registered(part) or "batch_statistics" in part.attrs for part in parts if isinstance(part, Instance)
    )
