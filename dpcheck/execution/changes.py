"""Parameters that change after their model was wrapped, and are trained through the old wrapper all the same."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from dpcheck.execution.arming import exclusive
from dpcheck.execution.freezing import switches
from dpcheck.execution.run import Event, TrainingRun, escaped, parts_of, unwrapped
from dpcheck.execution.values import Const, Data, Instance

_KINDS = ("set module attribute", "requires grad", "initialise weights")


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Changed:
    """A change after a wrap. `how` is the event's kind, "thawed" or "frozen"; `before` froze what is thawed."""

    how: str
    event: Event
    wrap: Event
    backward: Event
    before: Event | None = None


def changed(run: TrainingRun) -> Iterator[Changed]:
    """The changes that the wrapper (one that is armed by its forward) does not know of."""
    if not run.complete:
        return
    for wrap in run.of_kind("wrap"):
        if not wrap.armed or escaped(wrap.wrapper) or not isinstance(unwrapped(wrap.subject), Instance):
            continue
        known = {id(part) for part in wrap.parts}
        for event in run.of_kind(*_KINDS):
            if event.order < wrap.order or any(guard.by_rank for guard in event.guards):
                continue
            if exclusive(wrap.guards, event.guards):
                continue
            backward = _trained_after(run, wrap, event)
            found = _change(run, wrap, event, known) if backward is not None else None
            if found is not None and backward is not None:
                yield dataclasses.replace(found, backward=backward)


def _change(run: TrainingRun, wrap: Event, event: Event, known: set[int]) -> Changed | None:
    owners = event.subject if isinstance(event.subject, tuple) else (event.subject,)
    modules = [unwrapped(owner) for owner in owners]
    if not any(id(part) in known for module in modules for part in parts_of(module)):
        return None
    if event.kind == "requires grad":
        return _switched(run, wrap, event, modules)
    if not any(id(module) in known for module in modules):
        return None
    if event.kind == "set module attribute":
        brings = _brings_parameters(event, known) and not _is_frozen_later(run, event)
        return Changed(event.kind, event, wrap, event) if brings else None
    redrawn = event.drawn and event.state is not None and event.state.place.is_local
    return Changed(event.kind, event, wrap, event) if redrawn else None


def brings_parameters(run: TrainingRun, made: Event, event: Event) -> bool:
    """Is it a parameter, or a layer with parameters, that was made after the optimizer and that no optimizer knows?"""
    modules = [e.subject for e in run.of_kind("model") if made.order < e.order < event.order]
    if isinstance(event.value, Instance) and not any(event.value is module for module in modules):
        return False
    others = [e for e in run.of_kind("optimizer") if e.order > event.order]
    return not others and _brings_parameters(event, set())


def _brings_parameters(event: Event, known: set[int]) -> bool:
    """Is it a parameter, or a layer with parameters, that the model did not have before?"""
    if isinstance(event.value, Data):
        return bool(event.fresh)
    return isinstance(event.value, Instance) and any(
        isinstance(value, Data) and any(owner is part for owner in value.facts.parameter_of)
        for part in parts_of(event.value)
        if id(part) not in known and not escaped(part)
        for value in part.attrs.values()
    )


def _is_frozen_later(run: TrainingRun, event: Event) -> bool:
    """Is what is put in (a teacher's new weights, say) not to be trained?"""
    if not isinstance(event.value, Instance):
        return False
    later = [switch for switch in switches(run, event.value) if switch.order > event.order]
    return any(not (isinstance(switch.value, Const) and switch.value.value) for switch in later)


def _switched(run: TrainingRun, wrap: Event, event: Event, modules: list[Any]) -> Changed | None:
    """Was what is switched on frozen at the wrap, or is what is switched off in use?"""
    if not isinstance(event.value, Const):
        return None
    touched = {id(part) for module in modules for part in parts_of(module)}
    others = [e for e in run.of_kind("requires grad") if e is not event and _touches(e, touched)]
    if event.value.value:
        before = [e for e in others if e.order < wrap.order]
        frozen = before[-1] if before and isinstance(before[-1].value, Const) and not before[-1].value.value else None
        stepped = frozen is not None and _is_stepped(run, event, touched)
        return Changed("thawed", event, wrap, event, frozen) if stepped else None
    # What is switched on again, as the discriminator of a GAN is, is there when its gradients are wanted.
    again = [e for e in others if e.order > wrap.order and not (isinstance(e.value, Const) and not e.value.value)]
    whole = id(unwrapped(wrap.subject)) in touched and not event.guards
    if again or whole or not _is_false(wrap.options.get("find_unused_parameters")):
        return None
    return Changed("frozen", event, wrap, event)


def _is_stepped(run: TrainingRun, thawed: Event, parts: set[int]) -> bool:
    """Does an optimizer hold what is thawed, and not only those that were trained when it was built?"""
    asked = [e for e in run.of_kind("is trained") if _touches(e, parts)]
    for made in run.of_kind("optimizer"):
        if any(id(part) in parts for owner in made.owners for part in parts_of(unwrapped(owner))):
            if made.order > thawed.order or not any(event.order < made.order for event in asked):
                return True
    return False


def _touches(event: Event, parts: set[int]) -> bool:
    owners = event.subject if isinstance(event.subject, tuple) else (event.subject,)
    return any(id(part) in parts for owner in owners for part in parts_of(unwrapped(owner)))


def _is_false(value: Any) -> bool:
    return isinstance(value, Const) and not value.value


def _trained_after(run: TrainingRun, wrap: Event, event: Event) -> Event | None:
    """The backward after it (or in the next pass of a loop) that goes through this wrapper."""
    for backward in run.of_kind("backward"):
        again = any(loop in backward.loops for loop in event.loops if loop not in wrap.loops)
        if backward.order > event.order or again:
            if any(module is wrap.wrapper for module in backward.modules):
                return backward
    return None
