"""Collectives: what a tensor is on every rank after it was reduced, gathered or broadcast."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, NamedTuple

from dpcheck.execution import expressions, placement, tensors, weights
from dpcheck.execution.facts import CONSTANT, EVEN, NOTHING, Cut, Facts, Site, SourceKind, Term, replace
from dpcheck.execution.intrinsics.arguments import Arguments, Table
from dpcheck.execution.loading import leaves
from dpcheck.execution.placement import REPLICATE, UNKNOWN, WORLD_SIZE, Kind, Placement
from dpcheck.execution.trail import join_all
from dpcheck.execution.values import (
    NONE,
    TRUE,
    Choice,
    Const,
    Content,
    Data,
    Instance,
    Mapping,
    Sequence,
    Value,
    is_false,
    is_none,
    is_true,
    options,
    text_of,
)

if TYPE_CHECKING:
    from dpcheck.execution.interpreter import Interpreter

_OF_ONE_RANK = frozenset((SourceKind.RANK, SourceKind.LOCAL_RANK, SourceKind.DRAW, SourceKind.TIME))
"""What makes a value this rank's own; a broadcast value is no longer made from it."""


class _Reduction(NamedTuple):
    """An all-reduce as the program asks for it."""

    op: str
    group: Value
    differentiable: bool
    in_place: bool
    site: Site


def _all_reduce(it: Interpreter, a: Arguments, site: Site) -> Value:
    wanted = _Reduction(
        op=text_of(a.get("op", Const("sum"))),
        group=a.get("group", NONE),
        differentiable=is_true(a.get("differentiable")),
        in_place=not is_false(a.get("in_place", TRUE)),
        site=site,
    )
    target = a["tensor"]
    told = {"said": text_of(a["said"])} if "said" in a else {}
    shapes = tuple(leaves(target))
    it.record("collective", site, target, name="all_reduce", op=wanted.op, group=wanted.group, shapes=shapes, **told)
    return join_all([_reduce(it, one, wanted) for one in options(target)])


def _reduce(it: Interpreter, target: Value, wanted: _Reduction) -> Value:
    """The all-reduce of a tensor, or of each in a list or dictionary."""
    if isinstance(target, Sequence):
        if target.items is not None:
            return Sequence([_reduce(it, item, wanted) for item in target.items], target.kind)
        if target.element is not None:
            return Sequence(None, target.kind, _reduce(it, target.element, wanted), target.length)
        return target
    if isinstance(target, Mapping):
        entries = {key: _reduce(it, value, wanted) for key, value in target.entries.items()}
        return Mapping(entries, _reduce(it, target.other, wanted) if target.other is not None else None)
    return _reduce_tensor(it, target, wanted)


def _reduce_tensor(it: Interpreter, target: Value, wanted: _Reduction) -> Value:
    site, facts = wanted.site, expressions.facts_of(it, target)
    if facts.gradient_of:
        details = {"op": wanted.op, "group": wanted.group}
        if wanted.in_place:
            it.record("reduce gradients", site, facts.gradient_of, **details)
            return target
        return Data(replace(facts, gradient_ops=(*facts.gradient_ops, (site, details))), site)
    if facts.parameter_of and wanted.in_place and isinstance(target, Data):
        it.record("broadcast weights", site, facts.parameter_of, by="all_reduce")
        return target
    _note_group(it, site, wanted.group, again=facts.reduced is not None)
    if wanted.op == "avg":
        tensors.averaged(it, facts, "ranks", site)
    new = _all_reduced(facts, wanted)
    if wanted.in_place and isinstance(target, Data):
        it.trail.set(target.state, "facts", new)
        return target
    return Data(new, site)


def _all_reduced(facts: Facts, wanted: _Reduction) -> Facts:
    """The facts of a tensor after an all-reduce: the same on every rank."""
    place = _reduced_place(facts.place, wanted.op)
    if facts.place.is_unknown and not facts.grad:
        # Whatever it was, it is a sum (or mean) over the ranks now.
        place = Placement(Kind.REPLICATE, world=1 if wanted.op == "sum" else 0)
    cuts = facts.grad and not facts.opaque and not wanted.differentiable
    return replace(
        facts,
        place=place,
        total=EVEN,
        terms=_reduced_terms(facts, wanted),
        parts=tuple(_all_reduced(part, wanted) for part in facts.parts) if facts.parts else None,
        reduced=wanted.site,
        summed=facts.total,
        mask=False,
        clean=False,
        detached=Cut(wanted.site) if cuts else facts.detached,
        coupled=None,
        differs=(),
        led=(),
        sources=frozenset(source for source in facts.sources if source.kind is not SourceKind.STATE),
    )


def _reduced_place(place: Placement, op: str) -> Placement:
    return placement.all_reduce_sum(place) if op == "sum" else placement.all_reduce_mean(place)


def _reduced_terms(facts: Facts, wanted: _Reduction) -> tuple[Term, ...]:
    """The loss terms of a tensor after an all-reduce."""
    if not facts.grad:
        return ()
    if facts.opaque and not wanted.differentiable:
        return tuple(dataclasses.replace(term, place=UNKNOWN) for term in facts.terms)  # a count, perhaps
    terms: list[Term] = []
    for term in facts.terms:
        place = _reduced_place(term.place, wanted.op)
        if wanted.differentiable:
            terms.append(dataclasses.replace(term, place=place, counted=False))
        else:
            # The value is all ranks', the gradient this rank's share of it alone.
            share = placement.divide(place, WORLD_SIZE)
            terms.append(dataclasses.replace(term, place=share, detached=Cut(wanted.site)))
    return tuple(terms)


def _note_group(it: Interpreter, site: Site, group: Value, again: bool) -> None:
    """Note the group that a collective works on: not known where it is now this one and now that, or the second one.

    A count that is added up over one group and then over another may have reached every rank.
    """
    known = it.run.groups.get(site)
    same = known is None or known is group or set(map(_member, options(known))) == set(map(_member, options(group)))
    narrow = any(isinstance(one, Instance) for one in options(group))
    it.run.groups[site] = group if same and not (again and narrow) else Data(NOTHING)


def _member(group: Value) -> object:
    return group.value if isinstance(group, Const) else group


def _all_gather(it: Interpreter, a: Arguments, site: Site) -> Value:
    """Returns the list of all ranks' tensors; `into` receives them in place when it is given."""
    target = a["tensor"]
    differentiable = is_true(a.get("differentiable"))
    group = a.get("group", NONE)
    name = text_of(a.get("name")) or "all_gather"
    it.record("collective", site, target, name=name, op="", group=group, shapes=tuple(leaves(target)))
    facts = expressions.facts_of(it, target)
    _note_group(it, site, group, again=False)
    element = Data(_gathered(it, facts, site, differentiable, stacked=False), site)
    world = Facts(WORLD_SIZE, type="int", total=EVEN, lead=EVEN, rest=EVEN, ndim=0)
    for one in options(a.get("into")):
        if isinstance(one, Sequence):
            it.trail.set(one.state, "content", Content(None, element, world))
        elif isinstance(one, Data):
            it.trail.set(one.state, "facts", _gathered(it, facts, site, differentiable, stacked=True))
    return Sequence(None, "list", element, world, site)


def _gather_stacked(it: Interpreter, a: Arguments, site: Site) -> Value:
    """accelerate's `gather`: all ranks' rows in one tensor, through lists and dictionaries."""
    target = a["tensor"]
    it.record("collective", site, target, name="all_gather", op="", group=NONE, shapes=tuple(leaves(target)))
    return _stacked(it, target, site, is_true(a.get("differentiable")))


def _stacked(it: Interpreter, target: Value, site: Site, differentiable: bool) -> Value:
    if isinstance(target, Sequence):
        if target.items is not None:
            return Sequence([_stacked(it, item, site, differentiable) for item in target.items], target.kind)
        element = target.element
        inner = _stacked(it, element, site, differentiable) if element is not None else None
        return Sequence(None, target.kind, inner, target.length)
    if isinstance(target, Mapping):
        return Mapping({k: _stacked(it, v, site, differentiable) for k, v in target.entries.items()}, target.other)
    if isinstance(target, Choice):
        return join_all([_stacked(it, option, site, differentiable) for option in target.options])
    return Data(_gathered(it, expressions.facts_of(it, target), site, differentiable, stacked=True), site)


def _gathered(it: Interpreter, facts: Facts, site: Site, differentiable: bool, stacked: bool) -> Facts:
    """What every rank holds after a gather: one rank's value as an element, or all of them along the first dimension.

    Under `no_grad` the script itself says that no gradient is meant to flow.
    """
    frozen = it.machine.get("no grad") is True
    cuts = facts.grad and not facts.opaque and not differentiable and not frozen
    terms: tuple[Term, ...] = ()
    if facts.grad and differentiable:
        # Its backward adds up what the ranks' losses say of each row: as if the loss were one, over all rows.
        terms = tuple(dataclasses.replace(t, place=_gathered_place(t.place, stacked)) for t in facts.terms)
    if facts.place.is_unknown and not facts.grad:
        place = Placement(Kind.REPLICATE, spread=stacked)  # whatever it was
    else:
        place = _gathered_place(facts.place, stacked)
    return replace(
        facts,
        place=place,
        grad=facts.grad and differentiable,
        terms=terms,
        reduced=site,
        summed=facts.total,
        detached=Cut(site) if cuts else facts.detached,
        coupled=None,
        differs=(),
        total=EVEN if not stacked or facts.ndim == 0 else facts.total,
        lead=EVEN if stacked else facts.lead,
        ndim=(max(facts.ndim, 1) if stacked else facts.ndim) if facts.ndim is not None else None,
    )


def _gathered_place(place: Placement, stacked: bool) -> Placement:
    every = placement.gather(place)
    return every if stacked or every.is_unknown else dataclasses.replace(every, spread=False)


def _broadcast(it: Interpreter, a: Arguments, site: Site) -> Value:
    """One rank's value on every rank; parameters handed in so are made equal."""
    target = a["tensor"]
    name, group = text_of(a.get("name")) or "broadcast", a.get("group", NONE)
    source, shapes = a.get("src", NONE), tuple(leaves(target))
    it.record("collective", site, target, name=name, op="", group=group, shapes=shapes, src=source)
    for one in options(target):
        _broadcast_one(it, one, site)
    return target


def _broadcast_one(it: Interpreter, target: Value, site: Site) -> None:
    if isinstance(target, Sequence):
        if target.items is not None:
            it.trail.set(target.state, "content", Content([_received(it, item, site) for item in target.items]))
        else:
            _received(it, target.element, site)
            it.trail.set(target.state, "content", Content(None, Data(replace(CONSTANT, type=""))))
    elif isinstance(target, Mapping):
        for item in [*target.entries.values(), *([target.other] if target.other is not None else [])]:
            _broadcast_one(it, item, site)
    elif isinstance(target, Instance):
        it.record("broadcast weights", site, (target,), by="broadcast")
    elif isinstance(target, Data):
        if target.facts.parameter_of:
            it.record("broadcast weights", site, target.facts.parameter_of, by="broadcast")
            return
        it.trail.set(target.state, "facts", _of_one_rank(target.facts))


def _of_one_rank(facts: Facts) -> Facts:
    """The facts of one rank's value on every rank."""
    kept = frozenset(source for source in facts.sources if source.kind not in _OF_ONE_RANK)
    led = tuple(why for why in facts.differs if why.kind is SourceKind.LOADER)
    return replace(facts, place=REPLICATE, total=EVEN, sources=kept, differs=(), led=led)


def _received(it: Interpreter, item: Value | None, site: Site) -> Value:
    """What stands in a list in the place of this object after one rank's list was broadcast."""
    if isinstance(item, Choice):
        # `[value if rank == 0 else None]`: what others put into the list is no more.
        sent = [option for option in item.options if not is_none(option)] or [item.options[0]]
        return join_all([_received(it, option, site) for option in sent])
    if item is None or isinstance(item, Const) or (isinstance(item, Data) and item.facts.type != "tensor"):
        facts = _of_one_rank(item.facts) if isinstance(item, Data) else replace(CONSTANT, type="")
        received = Data(facts, site)
        received.state["received"] = True
        return received
    _broadcast_one(it, item, site)
    return item


def _broadcast_parameters(it: Interpreter, a: Arguments, site: Site) -> Value:
    _broadcast_one(it, a["parameters"], site)
    owners = weights.owners_of(it, a["parameters"])
    it.record("broadcast weights", site, owners, by="broadcast")
    return NONE


def _same_everywhere(it: Interpreter, a: Arguments, site: Site) -> Value:
    """`value` as rank 0 has it."""
    return Data(replace(expressions.facts_of(it, a["value"]), place=REPLICATE, total=EVEN, differs=()), site)


INTRINSICS: Table = {
    "broadcast_parameters": (_broadcast_parameters, ("parameters",)),
    "all_reduce": (_all_reduce, ("tensor", "op", "group")),
    "all_gather": (_all_gather, ("tensor", "into", "group")),
    "gather_stacked": (_gather_stacked, ("tensor",)),
    "broadcast": (_broadcast, ("tensor", "group")),
    "same_everywhere": (_same_everywhere, ("value",)),
}
