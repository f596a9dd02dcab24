"""What is known of a result of which nothing is known but what it was made from."""

from __future__ import annotations

from typing import Any

from dpcheck.execution import placement
from dpcheck.execution.facts import (
    CONSTANT,
    EVEN,
    EVEN_UNKNOWN,
    NOTHING,
    Even,
    Facts,
    SourceKind,
    Term,
    differences,
    leads,
    replace,
)
from dpcheck.execution.placement import SHARD, Kind, Placement
from dpcheck.execution.tensors import terms


def elementwise(operands: list[Facts]) -> Facts:
    """The facts of an elementwise operation that is not linear: it varies as its operands do, and scales unknowably."""
    if not operands:
        return CONSTANT
    place = _spread_place(operands)
    lead, rest = operands[0].lead, operands[0].rest
    for other in operands[1:]:
        lead, rest = _broadcast(lead, other.lead), _broadcast(rest, other.rest)
    grad = any(o.grad for o in operands)
    return Facts(
        place=place,
        type="tensor" if any(o.type == "tensor" for o in operands) else operands[0].type,
        ndim=max((o.ndim for o in operands if o.ndim is not None), default=None)
        if all(o.ndim is not None for o in operands)
        else None,
        lead=lead,
        rest=rest,
        total=EVEN if all(o.total.is_even and o.place.is_replicate for o in operands) else any_uneven(operands),
        sources=frozenset().union(*(o.sources for o in operands)),
        grad=grad,
        terms=terms.nonlinear(operands, place) if grad else (),
        clean=all(o.clean for o in operands),
        gradient_of=next((o.gradient_of for o in operands if o.gradient_of), ()),
        gradient_ops=next((o.gradient_ops for o in operands if o.gradient_of), ()),
        detached=next((o.detached for o in operands if o.detached), None),
        coupled=next((o.coupled for o in operands if o.coupled), None),
        axis=next((o.axis for o in operands if o.place.spread and (o.grad or o.sources)), 0),
        opaque=any(o.opaque for o in operands),
        differs=differences(operands),
        led=leads(operands),
    )


def any_uneven(operands: list[Facts]) -> Even:
    """The total of what has an operand whose total is uneven; unknown without one."""
    for operand in operands:
        if operand.total.is_uneven:
            return operand.total
    return EVEN_UNKNOWN


def _broadcast(a: Even, b: Even) -> Even:
    """The evenness of a dimension in which two operands meet: one of them may be 1 there."""
    if a.is_uneven or b.is_uneven:
        return a if a.is_uneven else b
    return a if not a.is_even else b


def _spread_place(operands: list[Facts]) -> Placement:
    if any(o.place.is_unknown for o in operands):
        # Whatever the unknown operand is, what it meets row by row is this rank's own. (A loss term is not so lenient:
        # the unknown may be the factor that makes it right.)
        rows = any(o.place.is_local and o.place.spread and o.type == "tensor" for o in operands)
        return SHARD if rows else placement.UNKNOWN
    if all(o.place.is_replicate and o.place.world == 0 for o in operands):
        return Placement(Kind.REPLICATE, spread=any(o.place.spread for o in operands))
    locals_ = [o.place for o in operands if o.place.is_local]
    if locals_ and all(p.spread for p in locals_):
        return SHARD if all(o.place.world == 0 for o in operands) else placement.UNKNOWN
    return placement.UNKNOWN


def one_number(facts: Facts, **changes: Any) -> Facts:
    """The facts of a single number that was made of all the elements."""
    one: dict[str, Any] = {"lead": EVEN, "rest": EVEN, "ndim": 0, "parts": None, "mask": False, "permutation": False}
    return replace(facts, **one, **changes)


def test_facts(operands: list[Facts]) -> Facts:
    """A truth value computed from operands. It scales with nothing: the same numbers give the same answer."""
    facts = elementwise(operands)
    if operands and all(o.place.is_replicate for o in operands):
        facts = replace(facts, place=Placement(Kind.REPLICATE, spread=facts.place.spread))
    return replace(
        facts,
        type="bool",
        grad=False,
        terms=(),
        modulus=next((o.modulus for o in operands if o.modulus), None),
        gradient_of=(),
        clean=False,
        detached=None,
        coupled=None,
    )


def unknown_result(operands: list[Facts]) -> Facts:
    """What a function that was not read returns.

    From tensors with a row for each example it makes something of the same kind: were it a sum or a mean, no count of
    it is known, and nothing is said of a mean without evidence about its count.
    """
    if not operands:
        return NOTHING
    grad = any(o.grad for o in operands)
    batched = [o for o in operands if o.type == "tensor" or o.has(SourceKind.LOADER)]
    rows = [o for o in batched if o.place.is_local and o.place.spread]
    known = rows and all(o.place.is_replicate or (o.place.is_local and o.place.spread) for o in operands)
    place = SHARD if known else placement.UNKNOWN
    return Facts(
        place=place,
        type="tensor" if known else "",
        sources=frozenset().union(*(o.sources for o in operands)),
        grad=grad,
        terms=(Term(place, unsure=True),) if grad else (),
        opaque=grad,
    )


def of_unread_object(facts: Facts, inside_module: bool) -> Facts:
    """What an object that was not read makes when it is called: a layer or a loss, which keeps to this rank's examples.

    Inside a module it may hold weights, so that its result carries gradient.
    """
    if facts.grad or not inside_module or facts.place.is_unknown:
        return replace(facts, opaque=False)
    return replace(facts, grad=True, terms=(Term(placement.UNKNOWN),), opaque=False)
