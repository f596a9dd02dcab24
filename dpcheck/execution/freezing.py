"""Which parameters are trained: what `requires_grad` was switched to, and when."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dpcheck.execution.run import Event, TrainingRun, parts_of, unwrapped
from dpcheck.execution.values import Const, Instance


def switches(run: TrainingRun, module: Instance) -> Iterator[Event]:
    """The switches of all parameters of a module, or of a module that holds it."""
    for event in run.of_kind("requires grad"):
        if any(part is module for owner in _owners(event) for part in parts_of(unwrapped(owner))):
            yield event


def is_frozen(run: TrainingRun, module: Instance, at: Event) -> bool | None:
    """Are the parameters of a module frozen when an event happens? None where that is not known."""
    before = [event for event in switches(run, module) if event.order < at.order]
    if not before:
        return False
    last = before[-1]
    if not isinstance(last.value, Const) or any(guard not in at.guards for guard in last.guards):
        return None
    return not last.value.value


def _owners(event: Event) -> tuple[Any, ...]:
    return event.subject if isinstance(event.subject, tuple) else (event.subject,)
