"""State outside the gradients: what objects keep from batch to batch, and which of it comes from this rank's batches.

A tensor or number that is written into an attribute is marked by a source, so that a loss that was computed from what
earlier batches left behind shows where that came from.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from dpcheck.execution.facts import Facts, Site, Source, SourceKind, replace
from dpcheck.execution.values import Data, Instance, Value

if TYPE_CHECKING:
    from dpcheck.execution.interpreter import Interpreter
    from dpcheck.execution.run import Guard

_MODULE = "torch.nn.Module"
_OF_EXAMPLES = ("torch.utils.data.Dataset", "torch.utils.data.Sampler")


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Change:
    """What was written into an attribute. `derived`: made of what stood there before."""

    owner: Instance
    name: str
    facts: Facts
    in_place: bool
    derived: bool
    guards: tuple[Guard, ...]

    @property
    def is_kept(self) -> bool:
        """Does it gather something up over the batches, rather than hold this batch's own examples?"""
        if self.owner.is_a(_MODULE) and (self.in_place or self.name in registered(self.owner)):
            return self.in_place or self.derived or not self.facts.place.spread
        return self.derived and not self.facts.place.spread


def registered(owner: Instance) -> tuple[str, ...]:
    """The names of a module's buffers."""
    return owner.attrs.get("%registered") or ()


def kept(it: Interpreter, owner: Instance, name: str, value: Value, site: Site) -> Value:
    """A value as an attribute holds it from here on."""
    if not isinstance(value, Data) or owner.cls.unit.is_stub:
        return value
    facts = value.facts
    if facts.parameter_of or facts.grad or facts.gradient_of:
        return value
    if name in owner.attrs and _is_own(it, owner, facts):
        source = _source(it, owner, name, facts, site, in_place=False)
        marked = Data(replace(facts, sources=facts.sources | {source}), value.site, value.default)
        marked.identity, marked.made = value.identity, value.made
        value = marked
    if facts.type == "tensor":
        it.trail.set(value.state, "held by", (owner, name))
        if it.frame.unit.is_stub:  # registered as a buffer
            it.trail.set(owner.attrs, "%registered", (*registered(owner), name))
    return value


def written(it: Interpreter, target: Data, facts: Facts, site: Site) -> Facts:
    """What is known of a tensor that has been written to in place."""
    holder = target.state.get("held by")
    if holder is None:
        return facts
    owner, name = holder
    it.record("update state", site, owner, name=name, facts=facts)
    if facts.grad or not _is_own(it, owner, facts):
        return facts
    source = _source(it, owner, name, facts, site, in_place=True)
    return replace(facts, sources=facts.sources | {source})


def answered(it: Interpreter, facts: Facts, site: Site) -> Facts:
    """What a function returns that was not read: it may have summed what it was given over the ranks.

    That matters where what a model makes is worked on, or in the function that writes the state: what prepares a batch
    for the model keeps to this rank's examples.
    """
    if not facts.sources:
        return facts
    on_outputs = bool(it.calling) or facts.has(SourceKind.MODULE)
    source = Source(SourceKind.UNREAD, site, None if on_outputs else tuple(it.frames))
    return replace(facts, sources=facts.sources | {source})


def _may_be_shared(it: Interpreter, facts: Facts) -> bool:
    calls = facts.of_kind(SourceKind.UNREAD)
    return any(call.of is None or any(frame is it.frames[-1] for frame in call.of) for call in calls)


def _is_own(it: Interpreter, owner: Instance, facts: Facts) -> bool:
    """Does it come from this rank's batches?"""
    if _may_be_shared(it, facts):
        return False
    known = facts.place.is_local or any(why.kind is SourceKind.LOADER for why in facts.differs)
    if not known or it.building or any(map(owner.is_a, _OF_EXAMPLES)):
        return False
    return facts.has(SourceKind.LOADER) or facts.has(SourceKind.MODULE) or (bool(it.calling) and bool(facts.sources))


def _source(it: Interpreter, owner: Instance, name: str, facts: Facts, site: Site, *, in_place: bool) -> Source:
    before = [source.of for source in facts.of_kind(SourceKind.STATE)]
    derived = any(change.owner is owner and change.name == name for change in before)
    return Source(SourceKind.STATE, site, Change(owner, name, facts, in_place, derived, tuple(it.guards)))
