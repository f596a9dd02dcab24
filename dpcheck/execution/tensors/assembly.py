"""Many into one: tensors stacked or laid side by side, and tensors written as lists of numbers."""

from __future__ import annotations

import dataclasses
from functools import reduce
from typing import TYPE_CHECKING

from dpcheck.execution import expressions
from dpcheck.execution import facts as facts_
from dpcheck.execution.facts import CONSTANT, EVEN, Even, Facts, Site, both, replace, without_gradient
from dpcheck.execution.placement import REPLICATE, SHARD, Kind, Placement
from dpcheck.execution.tensors import dtypes, terms
from dpcheck.execution.tensors.markers import Marks, written
from dpcheck.execution.tensors.operands import Operands, Operation, dims
from dpcheck.execution.tensors.sizes import brought_to, length_even
from dpcheck.execution.trail import element_of
from dpcheck.execution.values import Const, Data, Sequence, Value, options

if TYPE_CHECKING:
    from dpcheck.execution.interpreter import Interpreter

_MOST_PARTS = 8
_SIDE_BY_SIDE = ("cat", "concat", "concatenate", "hstack", "vstack")


def _stack(given: Operands) -> Value:
    """stack, cat and their like keep the facts of each part that is known."""
    value = given.first("tensors", "data", "arrays")
    if isinstance(value, Sequence):
        return given.result(_joined(given, value))
    facts = given.facts
    if given.name == "stack":
        lead = facts.lead if facts.type == "tensor" else EVEN
        facts = replace(facts, rest=facts.elements, lead=lead, ndim=None)
    return given.result(replace(facts, type="tensor"))


def _joined(given: Operands, value: Sequence) -> Facts:
    element = element_of(value.content)
    if element is None:
        return replace(CONSTANT, type="tensor")
    one = given.facts_of(element)
    items, length, count = value.items, value.length, length_even(value)
    parts: tuple[Facts, ...] | None = None
    if items is not None and 1 < len(items) <= _MOST_PARTS:
        each = [given.facts_of(item) for item in items]
        parts = tuple(each) if all(f.ndim == 0 for f in each) else None
        one = _standing_for(one, each, given.name)
    if one.place.is_replicate and length is not None and length.place.world == 1:
        one = _one_from_every_rank(one)
    ndim = one.ndim
    if given.name in _SIDE_BY_SIDE:
        axis = dims(given.dim())
        if axis is not None and axis != [0]:
            lead, rest = one.lead, both(one.rest, count)
        elif length is not None and length.place.is_local and one.lead.is_even:
            lead, rest = count, one.rest
        else:
            lead, rest = both(one.lead, count), one.rest
        whole = next(
            (v.state["fills up to"] for v in items or [] if isinstance(v, Data) and "fills up to" in v.state), None
        )
        if whole is not None and axis in (None, [0]):
            lead = brought_to(lead, given.facts_of(whole).total)
        elif whole is not None:
            rest = brought_to(rest, given.facts_of(whole).total)
    else:
        lead, rest = count, one.elements
        ndim = one.ndim + 1 if one.ndim is not None else None
    total = one.total if one.total.is_uneven else both(one.total, count)
    return replace(one, type="tensor", lead=lead, rest=rest, total=total, parts=parts, ndim=ndim)


def _standing_for(one: Facts, each: list[Facts], name: str) -> Facts:
    """What stands for all parts: with the loss terms of each of them, and spread where each is spread or replicated."""
    if name in ("stack", "cat", "concat") and any(f.grad for f in each):
        one = replace(one, grad=True, terms=terms.of_all(each))
    places = [f.place for f in each]
    if one.place.is_unknown and all(p.world == 0 and (p.is_replicate or (p.is_local and p.spread)) for p in places):
        one = replace(one, place=SHARD)
    return one


def _one_from_every_rank(one: Facts) -> Facts:
    """Replicated parts side by side, one from every rank."""
    spread = tuple(
        terms.with_place(t, dataclasses.replace(t.place, spread=True)) if t.place.is_replicate else t for t in one.terms
    )
    return replace(one, place=Placement(Kind.REPLICATE, world=one.place.world, spread=True), terms=spread)


def _tensor(given: Operands) -> Value:
    """torch.tensor, as_tensor, np.array … of nested lists or numbers."""
    value = given.first("data", "object", "obj")
    if value is None or isinstance(value, Const):
        return given.result(replace(CONSTANT, type="tensor", ndim=0))
    if isinstance(value, Data):
        mask = dtypes.made(given, value.facts.mask)
        return Data(replace(without_gradient(value.facts), type="tensor", mask=mask), value.site or given.site)
    if isinstance(value, Sequence):
        facts = nested_facts(given.it, value, given.site)
        return given.result(replace(facts, mask=given.name == "BoolTensor" or dtypes.made(given, facts.mask)))
    return given.result(replace(given.facts_of(value), type="tensor"))


def _new_tensor(given: Operands) -> Value:
    return _tensor(given.beside_receiver())


def nested_facts(it: Interpreter, value: Sequence, site: Site) -> Facts:
    """The facts of a tensor that is written as a list of numbers, or as lists of lists."""
    element = element_of(value.content)
    count = length_even(value)
    if element is None:
        return replace(CONSTANT, type="tensor", ndim=1, lead=count)
    choices = list(options(element))
    inner = [nested_facts(it, v, site) for v in choices if isinstance(v, Sequence)]
    if inner:
        below = reduce(facts_.join, inner)
        ndim = below.ndim + 1 if below.ndim is not None else None
        return replace(below, lead=count, rest=below.elements, ndim=ndim, total=both(below.total, count))
    one = expressions.facts_of(it, element)
    each = [expressions.facts_of(it, choice) for choice in choices]
    items = value.items
    parts: tuple[Facts, ...] | None = None
    if items is not None and 1 < len(items) <= _MOST_PARTS:
        parts = tuple(expressions.facts_of(it, item) for item in items)
    mixed = len(choices) > 1
    return replace(
        one,
        type="tensor",
        place=_list_place(one.place, each, known_length=items is not None),
        lead=count,
        rest=EVEN,
        ndim=1,
        total=_mixed_total(one, count, value.state.get("uneven parts")) if mixed else _list_total(one, count),
        ignored=(*one.ignored, *_numbers_among(choices, site)) if mixed else one.ignored,
        parts=parts,
        grad=False,
        terms=(),
        clean=all(f.clean for f in each),
        mask=all(f.mask or f.type == "bool" for f in each),
    )


def _list_place(place: Placement, each: list[Facts], known_length: bool) -> Placement:
    if place.is_unknown and all(f.place.is_replicate or f.place.is_local for f in each):
        return SHARD if any(f.place.is_local for f in each) else REPLICATE
    return SHARD if place.is_local and not known_length else place


def _list_total(one: Facts, count: Even) -> Even:
    return one.total if one.total.is_uneven else both(one.total, count)


def _mixed_total(one: Facts, count: Even, uneven_parts: Even | None) -> Even:
    """The total of a list in which numbers of several kinds stand."""
    if count.is_uneven:
        return count
    total = _list_total(one, count)
    return uneven_parts if uneven_parts is not None and not total.is_uneven else total


def _numbers_among(choices: list[Value], site: Site) -> Marks:
    """The numbers that are written where others stand that are not constants."""
    marks: Marks = ()
    for choice in choices:
        if isinstance(choice, Const) and not isinstance(choice.value, bool):
            marks += written(choice, choice.site or site)
    return marks


OPERATIONS: dict[str, Operation] = {
    **dict.fromkeys(["stack", *_SIDE_BY_SIDE], _stack),
    **dict.fromkeys(
        "tensor as_tensor array asarray from_numpy FloatTensor LongTensor IntTensor Tensor BoolTensor"
        " scalar_tensor".split(),
        _tensor,
    ),
    "new_tensor": _new_tensor,
}
