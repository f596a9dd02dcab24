"""Which parameters are reduced over the ranks, by a wrapper or by hand, and which are stepped all the same."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from dpcheck.execution.divisions import origins
from dpcheck.execution.facts import Source, SourceKind
from dpcheck.execution.freezing import is_frozen
from dpcheck.execution.randomness import RandomState
from dpcheck.execution.run import Event, TrainingRun, Update, escaped, parts_of, unwrapped
from dpcheck.execution.values import Const, Data, Instance, is_none
from dpcheck.execution.weights import Loose

_TOLD = ("num_replicas", "rank")


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Unreduced:
    """A module (or a parameter by itself) that an optimizer steps by gradients of this rank's own.

    `made` is the optimizer's construction, `beside` what reduces other parameters of the same model, if something does.
    """

    update: Update
    made: Event
    module: Instance | Loose
    beside: Event | None


def unreduced(run: TrainingRun) -> Iterator[Unreduced]:
    """What is trained in a data-parallel run and never reduced."""
    if not run.complete:
        return
    by_wrap = [event for event in run.of_kind("wrap") if event.averages is not False]
    # Weights that are made equal again and again need no gradients in common.
    repeated = {loop for step in run.of_kind("step") for loop in step.loops}
    by_hand = run.of_kind("reduce gradients")
    by_hand += [e for e in run.of_kind("broadcast weights") if not repeated.isdisjoint(e.loops)]
    by_hand = [event for event in by_hand if not _chooses(by_hand, event)]
    covered = {id(part) for event in by_wrap for part in parts_of(unwrapped(event.subject))}
    reduced = [unwrapped(owner) for event in by_hand for owner in event.subject or ()]
    covered |= {id(part) for owner in reduced for part in (owner, *parts_of(owner))}
    chosen = {
        id(part) for e in run.of_kind("reduce gradients") for o in e.subject or () for part in parts_of(unwrapped(o))
    }
    called = [module for update in run.updates for backward in update.backwards for module in backward.modules]
    if not any(id(part) in covered | chosen for module in called for part in parts_of(unwrapped(module))):
        return
    seen: set[int] = set()
    for update in run.updates:
        if update.step.kind != "step" or update.partial or any(guard.by_rank for guard in update.step.guards):
            continue
        if _is_divided(run, update) or not _is_beside(update, [*by_wrap, *by_hand]):
            continue
        for made in run.of_kind("optimizer"):
            if made.subject is not update.step.subject or id(made) in seen:
                continue
            found = next(_left_out(run, update, made, covered), None)
            if found is not None and _differs(update) and not _is_one_share(run):
                seen.add(id(made))
                yield Unreduced(update, made, found, _beside(update, made))


def _is_divided(run: TrainingRun, update: Update) -> bool:
    """Do the ranks hand each other what parts of the model made, so that each of them may hold another part?"""
    exchanges = [e for e in run.of_kind("collective") if e.name.startswith("all_to_all")]
    return any(event.order < update.step.order for event in exchanges)


def _is_beside(update: Update, reducing: list[Event]) -> bool:
    """Is it part of the training that is data-parallel, and not one of another model that came before?"""
    step = update.step
    return any(event.order < step.order or any(loop in step.loops for loop in event.loops) for event in reducing)


def _chooses(events: list[Event], event: Event) -> bool:
    """Is it done for some parameters and not for others, by their names or shapes?"""
    for guard in event.guards:
        if guard.facts.has(SourceKind.PARAMETER):
            sides = [g for other in events for g in other.guards if g.site == guard.site and g.holds is not guard.holds]
            if not sides:
                return True
    return False


def _left_out(run: TrainingRun, update: Update, made: Event, covered: set[int]) -> Iterator[Instance | Loose]:
    """The modules that hold parameters of their own, belong to the optimizer, are trained, and are never reduced."""
    called = {id(p) for b in update.backwards for m in b.modules for p in parts_of(unwrapped(m))}
    for owner in made.owners:
        whole = unwrapped(owner)
        if isinstance(whole, Loose) and id(whole) not in covered and id(None) not in covered:
            yield whole
        if not isinstance(whole, Instance) or escaped(whole):
            continue
        for part in parts_of(whole):
            if id(part) in covered or id(part) not in called or escaped(part) or not _holds_parameters(part):
                continue
            if is_frozen(run, part, update.backwards[-1]) is False:
                yield part


def _holds_parameters(part: Instance) -> bool:
    return any(
        isinstance(v, Data) and any(owner is part for owner in v.facts.parameter_of) for v in part.attrs.values()
    )


def _differs(update: Update) -> bool:
    """Do the gradients come from data of this rank's own?"""
    for backward in update.backwards:
        if any(guard.by_rank for guard in backward.guards):
            return False
        if backward.facts.place.is_local and any(map(_is_of_one_rank, origins(backward.facts))):
            return True
    return False


def _is_of_one_rank(source: Source) -> bool:
    """Was it the rank, or a draw of each rank's own, that made the data this rank's?"""
    if source.kind is SourceKind.DRAW:
        return isinstance(source.of, RandomState) and source.of.place.is_local
    return source.kind in (SourceKind.RANK, SourceKind.LOCAL_RANK)


def _is_one_share(run: TrainingRun) -> bool:
    """Is a sampler told that there is but one part, or which part to take? Then all ranks have the same examples."""
    told = [event.details.get(name) for event in run.of_kind("shard") for name in _TOLD]
    return any(isinstance(value, Const) and not is_none(value) for value in told)


def _beside(update: Update, made: Event) -> Event | None:
    """The reduction by hand of other parameters that the optimizer steps."""
    stepped: set[Any] = {id(part) for owner in made.owners for part in parts_of(unwrapped(owner))}
    for event in update.reductions:
        if any(id(unwrapped(owner)) in stepped for owner in event.subject or ()):
            return event
    return None
