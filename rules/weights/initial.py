"""Models whose ranks must start alike without a wrapper's help, and the random state that they were built under."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from dpcheck.execution import TrainingRun
from dpcheck.execution.randomness import RandomState
from dpcheck.execution.run import Event, escaped, parts_of, unwrapped
from dpcheck.execution.values import Instance


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Unhelped:
    """A model, its construction, and the event that makes it data-parallel without copying any weights."""

    model: Event
    joined: Event
    state: RandomState


def unhelped(run: TrainingRun) -> Iterator[Unhelped]:
    """The models drawn at random whose weights nothing makes equal before the first step."""
    if not run.complete:
        return
    helped = {id(unwrapped(e.subject)) for e in run.of_kind("wrap") if e.broadcasts is not False}
    joins = [(e.subject, e) for e in run.of_kind("wrap") if e.broadcasts is False]
    joins += [(owner, e) for e in run.of_kind("reduce gradients") for owner in e.subject or ()]
    seen: set[int] = set()
    for subject, event in joins:
        module = unwrapped(subject)
        if not isinstance(module, Instance) or id(module) in helped:
            continue
        parts = list(parts_of(module))
        if any(escaped(part) for part in parts) or _is_drawn_in_shards(run, event, module):
            continue
        built = [
            model
            for model in run.of_kind("model")
            if model.order < event.order
            and (
                any(model.subject is part for part in parts) or any(part is module for part in parts_of(model.subject))
            )
        ]
        drawn = [model for model in built if _is_drawn(run, model, event) and not _made_equal(run, model)]
        # Layers that were built one by one and put together are one model: the last one built holds the others.
        around = [model for model in built if any(part is module for part in parts_of(model.subject))]
        whole = around[-1] if around else None
        if whole is not None and drawn:
            if _made_equal(run, whole):
                continue
            states = [_state(run, model, event) for model in drawn]
            state = next((state for state in states if not state.place.is_replicate), states[-1])
            drawn = []
            if id(whole) not in seen:
                yield Unhelped(whole, event, state)
            seen.add(id(whole))
        for model in drawn:
            if id(model) not in seen:
                seen.add(id(model))
                yield Unhelped(model, event, _state(run, model, event))


def _is_drawn_in_shards(run: TrainingRun, joined: Event, module: Instance) -> bool:
    """Are weights that have been divided among the ranks drawn anew, where each rank draws its own shard?"""
    if not joined.details.get("shards"):
        return False
    owners = [o for e in run.of_kind("initialise weights") if e.order > joined.order for o in e.subject]
    return any(part is module for owner in owners for part in parts_of(unwrapped(owner))) or any(
        part is owner for owner in owners for part in parts_of(module)
    )


def _is_drawn(run: TrainingRun, model: Event, joined: Event) -> bool:
    """Do the weights come from a random state, when the model is built or by an initialisation after that?"""
    parts = {id(part) for part in parts_of(model.subject)}
    later = [e for e in run.of_kind("initialise weights") if e.drawn and model.order < e.order < joined.order]
    return model.random or any(id(owner) in parts for event in later for owner in event.subject)


def _made_equal(run: TrainingRun, model: Event) -> bool:
    """Are the weights loaded on every rank, or broadcast?"""
    parts = {id(part) for part in parts_of(model.subject)}
    for event in run.of_kind("load weights", "broadcast weights"):
        for owner in event.subject or ():
            module = unwrapped(owner)
            touches = id(module) in parts or any(part is model.subject for part in parts_of(module))
            if touches and not any(guard.by_rank for guard in event.guards):
                return True
    constants = [e for e in run.of_kind("initialise weights") if not e.drawn]
    return any(unwrapped(owner) is model.subject for event in constants for owner in event.subject)


def _state(run: TrainingRun, model: Event, joined: Event) -> RandomState:
    """The random state of the last initialisation before the model is made data-parallel."""
    parts = {id(part) for part in parts_of(model.subject)}
    state: RandomState = model.state
    for event in run.of_kind("initialise weights"):
        if event.drawn and event.order < joined.order and any(id(owner) in parts for owner in event.subject):
            state = event.state
    return state
