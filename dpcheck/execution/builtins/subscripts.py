"""Subscripts: `a in b`, `b[i]`, `b[i] = a`, `del b[i]`, and what an element is that was picked by an index."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpcheck.execution import calls, divisions, expressions, placement, tensors
from dpcheck.execution.builtins import iteration, mappings, sequences, strings
from dpcheck.execution.facts import CONSTANT, EVEN, INTEGER, NOTHING, Facts, Site, SourceKind, differences, replace
from dpcheck.execution.trail import element_of, join_all, join_elements
from dpcheck.execution.values import (
    Builtin,
    Choice,
    Class,
    Const,
    Content,
    Data,
    Foreign,
    Generator,
    Instance,
    Mapping,
    Sequence,
    Value,
    is_none,
)

if TYPE_CHECKING:
    from dpcheck.execution.interpreter import Interpreter


def contains(it: Interpreter, a: Value, b: Value) -> bool | None:
    """`a in b`, None when not known."""
    if isinstance(b, Mapping):
        if isinstance(a, Const):
            if a.value in b.entries:
                return True
            return False if b.other is None else None
        return None
    if isinstance(b, Sequence) and b.items is not None:
        answers = [expressions.equal(it, a, item) for item in b.items]
        if True in answers:
            return True
        return None if None in answers else False
    if isinstance(b, Instance):
        method = b.cls.lookup("__contains__")
        if method is not None:
            return it.truth(calls.call(it, calls.bind(b, method), [a], {}, it.site(0)))
    return None


_FEWEST_RANKS = 2


def get_item(it: Interpreter, value: Value, index: Value, site: Site) -> Value:
    """`value[index]`."""
    if isinstance(value, Choice):
        found = [get_item(it, option, index, site) for option in value.options if not is_none(option)]
        return join_all(found) if found else Data(NOTHING)
    if isinstance(value, Sequence):
        return _sequence_item(it, value, index, site)
    if isinstance(value, Mapping):
        return mappings.lookup(it, value, index)
    if isinstance(value, Data):
        return tensors.get_item(it, value, index, site)
    if isinstance(value, Instance):
        return _instance_item(it, value, index, site)
    if isinstance(value, Const) and isinstance(value.value, str):
        return strings.get_item(value.value, index, site)
    if isinstance(value, (Class, Builtin, Foreign)):
        return value  # a generic alias: `list[int]`, `Dataset[T]`
    if isinstance(value, Generator):
        return calls.element(it, value)
    return Data(NOTHING, site)


def _instance_item(it: Interpreter, value: Instance, index: Value, site: Site) -> Value:
    method = value.cls.lookup("__getitem__")
    if method is not None:
        return calls.call(it, calls.bind(value, method), [index], {}, site)
    items = iteration.exact_items(value)
    if items is not None and isinstance(index, Const) and isinstance(index.value, int) and index.value < len(items):
        return items[index.value]
    return Data(NOTHING, site)


def _sequence_item(it: Interpreter, value: Sequence, index: Value, site: Site) -> Value:
    items = value.items
    if isinstance(index, Const) and isinstance(index.value, int):
        if items is not None:
            return items[index.value] if -len(items) <= index.value < len(items) else Data(NOTHING, site)
        if value.kind == "shape" and index.value == 0 and isinstance(value.state.get("lead"), Value):
            lead: Value = value.state["lead"]
            return lead
        return value.element or Data(NOTHING, site)
    if isinstance(index, Sequence) and index.kind == "slice":
        result = _sequence_slice(it, value, index, site)
        divisions.sliced(it, value, index.items or [], result, site)
        return result
    divisions.picked(it, value, index, site)
    element = element_of(value.content)
    return placed_by(element, expressions.facts_of(it, index)) if element is not None else Data(NOTHING, site)


def _sequence_slice(it: Interpreter, value: Sequence, index: Sequence, site: Site) -> Value:
    items, bounds = value.items, index.items or []
    if items is not None and all(isinstance(b, Const) and isinstance(b.value, (int, type(None))) for b in bounds):
        lower, upper, step = (b.value for b in bounds if isinstance(b, Const))
        if step != 0:
            return Sequence(items[slice(lower, upper, step)], value.kind, site=value.site)
    element = element_of(value.content)
    facts = [expressions.facts_of(it, b) for b in bounds if not isinstance(b, Const)]
    by_rank = [f for f in facts if f.has(SourceKind.RANK) or f.place.is_local]
    if by_rank and element is not None:
        element = placed_by(element, replace(tensors.elementwise(by_rank), place=placement.SHARD))
    uneven_bound = next((f.total for f in facts if f.total.is_uneven), None)
    length: Facts | None = None
    if uneven_bound is not None:
        length = replace(INTEGER, type="number", place=placement.PARTIAL, total=uneven_bound)
    elif items is None and not facts and value.length is not None and value.length.total.is_uneven:
        length = value.length
    elif by_rank and not divisions.is_cut(value) and (items is None or len(items) % _FEWEST_RANKS):
        # Every W-th of a number that is no multiple of W.
        length = Facts(placement.RATIO, type="int", ndim=0, lead=EVEN, rest=EVEN, differs=differences(by_rank))
    return Sequence(None, value.kind, element, length, site)


def placed_by(element: Value, by: Facts) -> Value:
    """An element picked by an index: this rank's own where the index is."""
    if by.place.is_replicate and not by.sources:
        return element
    if isinstance(element, Data):
        facts = element.facts
        place = placement.SHARD if facts.place.is_replicate and by.place.is_local else facts.place
        differs = differences((facts, by))
        return Data(replace(facts, place=place, sources=facts.sources | by.sources, differs=differs), element.site)
    if isinstance(element, Sequence):
        if element.items is not None:
            return Sequence([placed_by(item, by) for item in element.items], element.kind, site=element.site)
        return sequences.alike(element, placed_by(element.element, by) if element.element is not None else None)
    if isinstance(element, Mapping):
        other = placed_by(element.other, by) if element.other is not None else None
        return Mapping({key: placed_by(entry, by) for key, entry in element.entries.items()}, other, element.site)
    if isinstance(element, Choice):
        return join_all([_one_of(option, by) for option in element.options])
    if isinstance(element, Instance) and "%facts" in element.attrs:
        picked = Instance(element.cls, element.site, element.key)  # a path or an image: as much its own as a text is
        picked.attrs.update(element.attrs)
        picked.attrs["%facts"] = placed_by(element.attrs["%facts"], by)
        return picked
    return element


def _one_of(option: Value, by: Facts) -> Value:
    """One of several elements, picked by an index: a constant is this rank's own where they differ."""
    if isinstance(option, Const) and isinstance(option.value, (str, int, float)):
        place = placement.SHARD if by.place.is_local else by.place
        facts = replace(CONSTANT, type=type(option.value).__name__, place=place, sources=by.sources, differs=by.differs)
        return Data(facts, option.site)
    return placed_by(option, by)


def set_item(it: Interpreter, owner: Value, index: Value, value: Value, site: Site) -> None:
    """`owner[index] = value`."""
    if isinstance(owner, Mapping):
        if isinstance(index, Const) and index.value == "lr" and "params" in owner.entries:
            it.record("set rate", site, owner)
        mappings.put(it, owner, index, value)
    elif isinstance(owner, Sequence):
        it.trail.set(owner.state, "content", _with_item(it, owner, index, value))
    elif isinstance(owner, Data):
        tensors.set_item(it, owner, index, value, site)
    elif isinstance(owner, Instance):
        method = owner.cls.lookup("__setitem__")
        if method is not None:
            calls.call(it, calls.bind(owner, method), [index, value], {}, site)
    elif isinstance(owner, Choice):
        for option in owner.options:
            set_item(it, option, index, value, site)


def _with_item(it: Interpreter, owner: Sequence, index: Value, value: Value) -> Content:
    """What is in a list after an item, or a slice of it, was set."""
    items = owner.items
    if items is not None and isinstance(index, Const) and isinstance(index.value, int):
        if -len(items) <= index.value < len(items):
            changed = list(items)
            changed[index.value] = value
            return Content(changed)
    old = element_of(owner.content)
    new = calls.element(it, value) if isinstance(index, Sequence) and index.kind == "slice" else value
    element = tensors.own_slot(it, old, index, new) or (new if old is None else join_elements(old, new))
    return Content(None, element, owner.length if items is None else INTEGER)


def delete_item(it: Interpreter, owner: Value, index: Value) -> None:
    """`del owner[index]`."""
    if isinstance(owner, Mapping):
        if isinstance(index, Const) and index.value in owner.entries:
            it.trail.set(owner.state, "entries", {k: v for k, v in owner.entries.items() if k != index.value})
    elif isinstance(owner, Sequence):
        sequences.remove_at(it, owner, index)
    elif isinstance(owner, Instance):
        method = owner.cls.lookup("__delitem__")
        if method is not None:
            calls.call(it, calls.bind(owner, method), [index], {}, it.site(0))
