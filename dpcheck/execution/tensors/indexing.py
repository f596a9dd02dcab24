"""`x[index]` and `x[index] = value`: whose rows are picked or written, and how many."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, TypeGuard

from dpcheck.execution import divisions, expressions, placement, states
from dpcheck.execution.facts import (
    EVEN,
    EVEN_UNKNOWN,
    Even,
    Evidence,
    Facts,
    Site,
    SourceKind,
    differences,
    replace,
    uneven,
)
from dpcheck.execution.placement import SHARD
from dpcheck.execution.tensors import terms
from dpcheck.execution.tensors.assembly import nested_facts
from dpcheck.execution.tensors.combining import elementwise, unknown_result
from dpcheck.execution.tensors.markers import written
from dpcheck.execution.tensors.rows import row_facts
from dpcheck.execution.tensors.selection import selected
from dpcheck.execution.values import NONE, Const, Data, Sequence, Value

if TYPE_CHECKING:
    from dpcheck.execution.interpreter import Interpreter


def get_item(it: Interpreter, value: Data, index: Value, site: Site) -> Value:
    """`x[index]` of a tensor, array or foreign object."""
    facts = value.facts
    if facts.parts is not None and isinstance(index, Const) and isinstance(index.value, int):
        if -len(facts.parts) <= index.value < len(facts.parts):
            return Data(facts.parts[index.value], site)
    if facts.type != "tensor":
        item = Data(_foreign_item(it, facts, index, site), site)
        if _is_slice(index):
            divisions.sliced(it, value, index.items or [], item, site)
        return item
    parts = _index_parts(index)
    if len(parts) == 1 and isinstance(parts[0], Const) and parts[0].value is Ellipsis:
        return value
    result = Data(_tensor_item(it, facts, parts, site), site)
    if parts and _is_slice(parts[0]):
        divisions.sliced(it, value, parts[0].items or [], result, site)
    elif parts:
        divisions.picked(it, value, parts[0], site)
    return result


def _foreign_item(it: Interpreter, facts: Facts, index: Value, site: Site) -> Facts:
    operands = [facts] if isinstance(index, (Const, Sequence)) else [facts, expressions.facts_of(it, index)]
    if facts.place.is_unknown:
        return unknown_result(operands)
    if _is_slice(index):
        return _sliced(it, facts, index, site)
    return replace(elementwise(operands), type="", lead=facts.rest, rest=EVEN_UNKNOWN, parts=None)


def _tensor_item(it: Interpreter, facts: Facts, parts: list[Value], site: Site) -> Facts:
    result, ndim = facts, facts.ndim
    first = True  # is the next part an index into the first dimension, whose entries are the rows?
    for part in parts:
        if _is_slice(part):
            if first:
                result = _sliced(it, result, part, site)
            first = False
        elif isinstance(part, Const) and part.value is Ellipsis:
            continue
        elif isinstance(part, Const) and part.value is None:
            if first:
                result = replace(result, lead=EVEN, rest=result.elements, axis=result.axis + 1)
            ndim = ndim + 1 if ndim is not None else None
        elif isinstance(part, Const):
            ndim = ndim - 1 if ndim else ndim
            if first:
                result = row_facts(result, None)
            elif result.rest.is_uneven:
                # The dimension that differs may be the one that is gone.
                total = EVEN_UNKNOWN if ndim is None else result.total
                result = replace(result, rest=EVEN if ndim == 1 else EVEN_UNKNOWN, total=total)
        else:
            by = expressions.facts_of(it, part)
            if by.mask:
                result, ndim, first = selected(result, by, site), None, False
                continue
            if isinstance(part, Sequence):
                by = nested_facts(it, part, site)
            if first:
                result = _picked(result, by, site)
            elif result.rest.is_uneven:
                result = replace(result, rest=EVEN_UNKNOWN)
            ndim = ndim - 1 + by.ndim if ndim is not None and by.ndim is not None else None
            first = first and by.ndim == 0
    return replace(result, ndim=ndim, parts=None, permutation=False)


def _index_parts(index: Value) -> list[Value]:
    if isinstance(index, Sequence) and index.kind == "tuple" and index.items is not None:
        return index.items
    return [index]


def _is_slice(part: Value) -> TypeGuard[Sequence]:
    return isinstance(part, Sequence) and part.kind == "slice"


def _picked(facts: Facts, by: Facts, site: Site) -> Facts:
    """Rows picked by an index: local where the index is, and then they add up to what this rank's indices say."""
    place, total = facts.place, facts.total
    if place.is_replicate and (by.place.is_local or by.place.is_unknown):
        place = dataclasses.replace(SHARD, world=place.world) if by.place.is_local else placement.UNKNOWN
        total = (
            uneven(Evidence(site, "looked up for this rank's own targets", sure=False)) if by.differs else EVEN_UNKNOWN
        )
    sources, differs = facts.sources | by.sources, differences((facts, by))
    if by.ndim == 0:
        return replace(row_facts(facts, None), place=place, sources=sources, differs=differs)
    picked = replace(facts, place=place, lead=by.lead, rest=facts.rest, total=total, sources=sources, parts=None)
    return replace(picked, differs=differs)


def _sliced(it: Interpreter, facts: Facts, index: Sequence, site: Site) -> Facts:
    """`x[lower:upper:step]`. A slice by rank is this rank's own."""
    bounds = _bounds(it, index)
    if facts.reduced is not None and facts.place.is_replicate and _ends(index):
        it.record("trim", site, Data(facts, site))
    by_rank = any(b.place.is_local or b.has(SourceKind.RANK) for b in bounds)
    return replace(
        facts,
        place=SHARD if by_rank and not facts.place.is_unknown else facts.place,
        lead=EVEN_UNKNOWN if facts.permutation and _capped(index) else _sliced_lead(it, facts.lead, index, bounds),
        sources=facts.sources.union(*(b.sources for b in bounds)),
        parts=None,
        differs=differences((facts, *bounds)),
    )


def _bounds(it: Interpreter, index: Sequence) -> list[Facts]:
    """What is known of the ends of a slice that are not constants."""
    return [expressions.facts_of(it, part) for part in index.items or [] if not isinstance(part, Const)]


def _sliced_lead(it: Interpreter, lead: Even, index: Sequence, bounds: list[Facts]) -> Even:
    width = window(index)
    if width is not None:
        return expressions.facts_of(it, width).total
    if len(bounds) > 1:
        return EVEN_UNKNOWN
    for bound in bounds:
        if bound.total.is_uneven:
            return bound.total
        if not bound.total.is_even and lead.is_even and not bound.has(SourceKind.COUNTER):
            return EVEN_UNKNOWN
    return lead


def _capped(index: Sequence) -> bool:
    """`x[:256]`, `x[:min(count, 256)]`: of numbers in random order, a sample of one size wherever there are enough."""
    upper = (index.items or [NONE, NONE])[1]
    if isinstance(upper, Const):
        return upper.value is not None
    return isinstance(upper, Data) and type(upper.identity) is tuple and upper.identity[0] == "least"


def _ends(index: Sequence) -> bool:
    """`x[:end]`"""
    lower, upper = (index.items or [NONE, NONE])[:2]
    return (
        isinstance(lower, Const) and lower.value in (None, 0) and not (isinstance(upper, Const) and upper.value is None)
    )


def window(index: Sequence) -> Value | None:
    """The width of a slice `x[i : i + width]`."""
    lower, upper = (index.items or [NONE, NONE])[:2]
    if isinstance(lower, Data) and isinstance(upper, Data) and type(upper.identity) is tuple:
        if upper.identity[0] == "sum" and upper.identity[1] == lower.identity:
            width: Value = upper.identity[2]
            return width
    return None


def set_item(it: Interpreter, target: Data, index: Value, value: Value, site: Site) -> None:
    """`x[index] = value`: a constant written into data marks elements without a target."""
    facts = target.facts
    if facts.gradient_of:
        return
    own = own_slot(it, target, index, value)
    if own is not None:
        it.trail.set(target.state, "facts", expressions.facts_of(it, own))
        return
    new, indices = expressions.facts_of(it, value), _indices(it, index)
    if any(i.reduced is not None and i.place.is_replicate and i.type == "tensor" for i in indices):
        # Each example goes to its own place, also one that came twice.
        it.record("trim", site, Data(elementwise([*indices, new]), site))
    ignored = facts.ignored + new.ignored
    if isinstance(value, Const) and not isinstance(value.value, bool):
        ignored += written(value, site)
    merged = replace(_overwritten(facts, new, indices), ignored=ignored)
    it.trail.set(target.state, "facts", states.written(it, target, merged, site))


def _indices(it: Interpreter, index: Value) -> list[Facts]:
    """What is known of the parts of an index that are not constants, and of the ends of its slices."""
    parts = [part for part in _index_parts(index) if not isinstance(part, Const)]
    indices = [expressions.facts_of(it, part) for part in parts if not _is_slice(part)]
    for part in parts:
        if _is_slice(part):
            indices += _bounds(it, part)
    return indices


def _overwritten(facts: Facts, new: Facts, indices: list[Facts]) -> Facts:
    """The facts of a tensor into which something new is written at these indices."""
    filled = facts.type == "tensor" and new.type != "tensor"  # by a number; what is no tensor may hold anything
    merged = elementwise([facts, *indices] if filled else [facts, new, *indices])
    place = merged.place if not merged.place.is_unknown or facts.place.is_unknown else facts.place
    if facts.place.is_replicate and any(f.place.is_local for f in (new, *indices)):
        place = SHARD
    grad = facts.grad or new.grad
    return replace(
        facts,
        place=place,
        total=_overwritten_total(facts.total, new, indices),
        sources=merged.sources,
        grad=grad,
        terms=terms.of_all((facts, new)) if grad else (),
        parts=None,
        clean=facts.clean and new.clean,
        permutation=False,
        differs=differences((facts, new, *indices)),
    )


def _overwritten_total(total: Even, new: Facts, indices: list[Facts]) -> Even:
    for by in indices:
        count = by.total if by.mask else by.lead
        if count.is_uneven:
            return count
    if any(i.place.is_local or i.place.is_unknown for i in indices) and total.is_even:
        return EVEN_UNKNOWN
    return new.total if new.total.is_uneven else total


def own_slot(it: Interpreter, old: Value | None, index: Value, value: Value) -> Value | None:
    """`parts[rank] = own` where `parts` came out of a gather: the same values on all ranks, this rank's own gradient.

    None where it is something else.
    """
    if not isinstance(old, Data) or not isinstance(value, Data):
        return None
    by = expressions.facts_of(it, index)
    gathered, own = old.facts, value.facts
    if not by.has(SourceKind.RANK) or gathered.reduced is None or not gathered.place.is_replicate:
        return None
    if not own.grad or gathered.grad or own.place.is_unknown:
        return old
    place = gathered.place
    addends = tuple(
        dataclasses.replace(t, place=dataclasses.replace(place, world=t.place.world - 1), detached=gathered.detached)
        if not t.place.is_unknown
        else t
        for t in own.terms
    )
    sources = gathered.sources | own.sources
    return Data(replace(gathered, grad=True, terms=addends, sources=sources), value.site)
