"""How many there are: numbers of elements, lengths and shapes, and whether they are the same on every rank."""

from __future__ import annotations

from dpcheck.execution import placement
from dpcheck.execution.facts import (
    EVEN,
    EVEN_UNKNOWN,
    INTEGER,
    NOTHING,
    Even,
    Evidence,
    Facts,
    Site,
    SourceKind,
    replace,
    uneven,
)
from dpcheck.execution.placement import PARTIAL, Kind, Placement
from dpcheck.execution.tensors.operands import Operands, Operation, dims
from dpcheck.execution.values import Data, Sequence, Value


def count_facts(facts: Facts, even: Even) -> Facts:
    """A number of elements of something: this rank's own where the thing is local, or where it differs."""
    place = PARTIAL if facts.place.is_local or even.is_uneven else facts.place
    if not place.is_replicate:
        differs = facts.differs if even.is_uneven else ()
        return Facts(
            place, type="int", ndim=0, lead=EVEN, rest=EVEN, total=even, sources=facts.sources, differs=differs
        )
    return Facts(
        Placement(Kind.REPLICATE, world=1 if facts.place.spread else 0),
        type="int",
        ndim=0,
        lead=EVEN,
        rest=EVEN,
        total=EVEN,
        sources=facts.sources,
        reduced=facts.reduced,
    )


def filtered_length(test: Facts, site: Site) -> Facts:
    """The number of elements that pass a test of unknown outcome."""
    varies = test.place.is_local or test.has(SourceKind.DRAW) or test.total.is_uneven
    count = uneven(Evidence(site, "only the elements that pass this test are kept")) if varies else EVEN_UNKNOWN
    place = PARTIAL if varies else placement.UNKNOWN
    return replace(INTEGER, place=place, total=count, differs=test.differs)


def length_even(value: Sequence) -> Even:
    """Is the length of a sequence the same on every rank?"""
    if value.items is not None:
        return EVEN
    return value.length.total if value.length is not None else EVEN_UNKNOWN


def size_even(size: Value | None, default: Even) -> Even:
    """Is a dimension that was asked for by its size the same on every rank?"""
    return size.facts.total if isinstance(size, Data) else default


def filled_up_to(amount: Value) -> Value | None:
    """The whole that a number brings something up to: `whole` where it is `whole - own`, and ranks differ in `own`."""
    if not isinstance(amount, Data) or amount.made is None or amount.made[0] != "-":
        return None
    _, whole, own = amount.made
    return whole if isinstance(own, Data) and not own.facts.place.is_replicate else None


def brought_to(dimension: Even, size: Even) -> Even:
    """A dimension after it was filled up by an amount that was computed: where the ranks differ in it, on purpose."""
    return size if dimension.is_uneven else dimension


def shape_of(facts: Facts, site: Site) -> Value:
    """The shape as a sequence: the number of rows, then dimensions of unknown number."""
    lead = _dimension(facts, 0, site)
    other = _dimension(facts, 1, site)
    if facts.ndim is not None and facts.ndim > 0:
        return Sequence([lead, *([other] * (facts.ndim - 1))], "shape")
    shape = Sequence(None, "shape", other, site=site)
    if facts.ndim is None:
        shape.state["lead"] = lead
    return shape


def _dimension(facts: Facts, dim: int | None, site: Site) -> Data:
    if dim == 0 or (facts.ndim is not None and dim == -facts.ndim):
        return Data(count_facts(facts, facts.lead), site)
    if dim is None:
        return Data(replace(NOTHING, type="int", ndim=0), site)
    if facts.rest.is_even:
        return Data(INTEGER, site)
    if facts.rest.is_uneven:
        return Data(replace(INTEGER, place=Placement(Kind.LOCAL), total=facts.rest), site)
    return Data(replace(INTEGER, place=placement.UNKNOWN, total=EVEN_UNKNOWN), site)


def _size(given: Operands) -> Value:
    where = given.at(1, "dim")
    if where is None:
        return shape_of(given.facts, given.site)
    asked = dims(where)
    return _dimension(given.facts, asked[0] if asked else None, given.site)


def _count(given: Operands) -> Value:
    facts = given.facts
    return given.result(count_facts(facts, facts.elements))


def _count_nonzero(given: Operands) -> Value:
    facts = given.facts
    return given.result(count_facts(facts, facts.total))


OPERATIONS: dict[str, Operation] = {
    "size": _size,
    "numel": _count,
    "nelement": _count,
    "count_nonzero": _count_nonzero,
}
