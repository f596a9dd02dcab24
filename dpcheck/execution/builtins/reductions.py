"""One value made of many: `len`, `sum`, `max`, `min`, `all` and `any`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

from dpcheck.execution import calls, expressions, placement, tensors
from dpcheck.execution.builtins import iteration
from dpcheck.execution.facts import (
    CONSTANT,
    EVEN,
    EVEN_UNKNOWN,
    INTEGER,
    NOTHING,
    Evidence,
    Facts,
    Site,
    both,
    differences,
    replace,
    uneven,
)
from dpcheck.execution.placement import Kind, Placement
from dpcheck.execution.trail import element_of
from dpcheck.execution.values import FALSE, NONE, TRUE, Const, Data, Instance, Mapping, Sequence, Value

if TYPE_CHECKING:
    from dpcheck.execution.interpreter import Interpreter


def _len(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    value = args[0] if args else NONE
    if isinstance(value, Sequence) and value.items is not None:
        return Const(len(value.items))
    if isinstance(value, Mapping) and value.other is None:
        return Const(len(value.entries))
    if isinstance(value, Const) and isinstance(value.value, (str, bytes)):
        return Const(len(value.value))
    if isinstance(value, (Sequence, Data)):
        result = Data(_sequence_count(value) if isinstance(value, Sequence) else _data_count(value), site)
        result.identity = ("len", value)
        return result
    if isinstance(value, Instance) and value.cls.lookup("__len__") is not None:
        return _named(value, calls.call_method(it, value, "__len__", [], {}, site))
    return Data(replace(NOTHING, type="int", ndim=0), site)


def _named(value: Instance, length: Value) -> Value:
    """The length of an object; one of which nothing is known is called by the name of the object."""
    if not isinstance(length, Data) or length.made is not None or type(length.identity) is tuple:
        return length
    if length.facts.sources:
        return length
    result = Data(length.facts, length.site, length.default)
    result.identity = ("len", value)
    return result


def _sequence_count(value: Sequence) -> Facts:
    facts = value.length
    if facts is None:
        return replace(INTEGER, place=placement.UNKNOWN, total=EVEN_UNKNOWN)
    place = placement.PARTIAL if facts.total.is_uneven and facts.place.is_replicate else facts.place
    return replace(facts, place=place, type="int", ndim=0)


def _data_count(value: Data) -> Facts:
    facts = value.facts
    if facts.type == "tensor":
        return tensors.count_facts(facts, facts.lead)
    place = placement.UNKNOWN if facts.place.is_unknown else facts.place
    differs = facts.differs if facts.lead.is_uneven else ()
    return Facts(
        place, type="int", total=facts.lead, sources=facts.sources, lead=EVEN, rest=EVEN, ndim=0, differs=differs
    )


def _sum(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """`sum(xs)`: of known addends one by one; of this rank's many, the local total."""
    if not args:
        return Const(0)
    start = args[1] if len(args) > 1 else kwargs.get("start")
    if isinstance(args[0], Sequence) and args[0].items is None and isinstance(start, Sequence):
        inner = element_of(args[0].content)
        return Sequence(None, "list", calls.element(it, inner) if inner is not None else None)
    known = iteration.exact_items(args[0])
    if known is not None:
        total: Value = Const(0)
        for item in known:
            empty = isinstance(total, Const) and total.value == 0
            total = item if empty else expressions.binary(it, "+", total, item, site)
        return total
    element = calls.element(it, args[0])
    length = iteration.length_facts(args[0])
    return Data(_summed(expressions.facts_of(it, element), length, site), site)


def _summed(facts: Facts, length: Facts | None, site: Site) -> Facts:
    """The facts of a sum of many alike addends."""
    place = facts.place
    if length is not None and length.place.world == 1 and place.is_replicate:
        return _summed_over_ranks(facts, site)
    if place.is_local and place.spread:
        place = placement.total(place)
    total = both(facts.total, length.total) if length is not None and not facts.total.is_uneven else facts.total
    if place.is_replicate and total.is_uneven and length is not None and length.place.is_local:
        place = placement.PARTIAL
    terms = tuple(
        dataclasses.replace(t, place=placement.total(t.place)) if t.place.is_local and t.place.spread else t
        for t in facts.terms
    )
    differs = differences((facts,) if length is None else (facts, length))
    return tensors.added(replace(facts, place=place, total=total, terms=terms, differs=differs))


def _summed_over_ranks(facts: Facts, site: Site) -> Facts:
    """The sum of one addend for each rank."""
    terms = tuple(
        dataclasses.replace(t, place=Placement(Kind.REPLICATE, world=t.place.world + 1)) if t.place.is_replicate else t
        for t in facts.terms
    )
    place = Placement(Kind.REPLICATE, world=facts.place.world + 1)
    return replace(facts, place=place, reduced=facts.reduced or site, total=EVEN, terms=terms)


def _max(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """max, min: a count that is kept at least one stays that count; the longest of this batch differs between ranks."""
    values = args if len(args) != 1 else iteration.exact_items(args[0])
    if values is None:
        return Data(_extreme(expressions.facts_of(it, calls.element(it, args[0])), site), site)
    if not values:
        return Data(NOTHING)
    data = [v for v in values if not isinstance(v, Const)]
    if not data:
        try:
            return Const(max(v.value for v in values if isinstance(v, Const)))
        except TypeError:
            return Data(CONSTANT)
    if len(data) == 1:
        one = data[0]
        return Data(expressions.facts_of(it, one), one.site if isinstance(one, Data) else site)
    return Data(tensors.elementwise([expressions.facts_of(it, v) for v in data]), site)


def _extreme(facts: Facts, site: Site) -> Facts:
    """The facts of the largest or smallest of many alike values."""
    if not facts.total.is_uneven:
        return replace(facts, ndim=0)
    even = uneven(*facts.total.evidence, Evidence(site, "the longest of this rank's batch"))
    return replace(facts, place=Placement(Kind.LOCAL), total=even, ndim=0)


def _min(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    values = args if len(args) != 1 else iteration.exact_items(args[0])
    if values and all(isinstance(v, Const) for v in values):
        try:
            return Const(min(v.value for v in values if isinstance(v, Const)))
        except TypeError:
            return Data(CONSTANT)
    least = _max(it, args, kwargs, site)
    if isinstance(least, Data) and values and len(values) > 1:
        least.identity = ("least", *(v.identity if isinstance(v, Data) else v for v in values))
    return least


def _all_any(name: str) -> Callable[..., Value]:
    def decide(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
        known = iteration.exact_items(args[0]) if args else None
        truths = {it.truth(item) for item in known} if known is not None else {None}
        if (name == "any") in truths:
            return TRUE if name == "any" else FALSE
        if None in truths:
            return Data(tensors.test_facts([expressions.facts_of(it, a) for a in args] or [CONSTANT]), site)
        return FALSE if name == "any" else TRUE

    return decide


FUNCTIONS: dict[str, Callable[..., Value]] = {
    "len": _len, "sum": _sum, "max": _max, "min": _min, "all": _all_any("all"), "any": _all_any("any"),
}  # fmt: skip
