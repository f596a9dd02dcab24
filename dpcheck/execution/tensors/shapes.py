"""The same elements in another shape or order: view, transpose, expand, and what becomes of the rows."""

from __future__ import annotations

from functools import reduce

from dpcheck.execution.facts import EVEN, EVEN_UNKNOWN, both, replace
from dpcheck.execution.placement import SHARD
from dpcheck.execution.tensors.combining import elementwise
from dpcheck.execution.tensors.coupling import turned
from dpcheck.execution.tensors.operands import Operands, Operation
from dpcheck.execution.tensors.sizes import size_even
from dpcheck.execution.values import Const, Data, Sequence, Value


def _flatten(given: Operands) -> Value:
    facts = given.facts
    start = given.at(1, "start_dim")
    end = given.at(2, "end_dim")
    if isinstance(start, Const) and isinstance(start.value, int) and start.value >= 1:
        return given.result(replace(facts, ndim=2 if end is None else None, parts=None))
    to_the_end = end is None or (isinstance(end, Const) and end.value == -1)
    return given.result(replace(facts, lead=facts.elements, rest=EVEN, ndim=1 if to_the_end else None))


def _view(given: Operands) -> Value:
    """view, reshape: rows stay rows when the first new size is the old one; else everything is one long row."""
    facts = given.facts
    sizes = _new_sizes(given)
    if not sizes:
        return given.result(replace(facts, parts=None, lead=EVEN_UNKNOWN, rest=EVEN_UNKNOWN, ndim=None))
    first, ndim = sizes[0], len(sizes)
    if isinstance(first, Const) and first.value == -1:
        parts = facts.parts if ndim == 1 else None
        rest = reduce(both, (given.facts_of(size).total for size in sizes[1:] if isinstance(size, Data)), EVEN)
        # What differs is then in the sizes that are named, and may be there alone.
        lead = EVEN_UNKNOWN if rest.is_uneven else facts.elements
        return given.result(replace(facts, lead=lead, rest=rest if rest.is_uneven else EVEN, ndim=ndim, parts=parts))
    if isinstance(first, Data):
        return given.result(replace(facts, ndim=ndim, parts=None))
    return given.result(replace(facts, lead=facts.elements, rest=facts.elements, ndim=ndim, parts=None))


def _new_sizes(given: Operands) -> list[Value]:
    shape = given.kwargs.get("shape")
    if isinstance(shape, Sequence):
        return list(shape.items or [])
    sizes = given.args[1:]
    if len(sizes) == 1 and isinstance(sizes[0], Sequence):
        return list(sizes[0].items or [])
    return sizes


def _transpose(given: Operands) -> Value:
    """transpose, permute: rows stay rows where the first dimension keeps its place."""
    facts, name = given.facts, given.name
    dims = [v.value for v in given.args[1:] if isinstance(v, Const)]
    if name in ("transpose", "swapaxes") and 0 not in dims and (facts.ndim is None or -facts.ndim not in dims):
        return given.result(replace(facts, parts=None))
    if name == "permute" and dims and dims[0] == 0:
        return given.result(replace(facts, parts=None))
    axis = turned(facts) if name == "t" or facts.ndim == 2 else 0
    return given.result(replace(facts, lead=facts.elements, rest=facts.elements, parts=None, axis=axis))


def _squeeze(given: Operands) -> Value:
    facts = given.facts
    ndim = facts.ndim
    if ndim:
        ndim = ndim - 1 if given.at(1, "dim") is not None else None
    return given.result(replace(facts, ndim=ndim, parts=None))


def _unsqueeze(given: Operands) -> Value:
    facts = given.facts
    where = given.at(1, "dim")
    ndim = facts.ndim + 1 if facts.ndim is not None else None
    if isinstance(where, Const) and where.value == 0:
        facts = replace(facts, lead=EVEN, rest=facts.elements, axis=facts.axis + 1)
    return given.result(replace(facts, ndim=ndim, parts=None))


def _expand(given: Operands) -> Value:
    """expand, repeat: to sizes that are given."""
    facts = given.facts
    sizes = given.args[1:]
    known = [given.facts_of(v).total for v in sizes if not (isinstance(v, Const) and v.value == -1)]
    lead = size_even(sizes[0] if sizes else None, facts.lead)
    return given.result(replace(facts, lead=lead, rest=reduce(both, known, facts.rest), ndim=None, parts=None))


def _expand_as(given: Operands) -> Value:
    """expand, view, reshape: to the shape of another tensor."""
    other = given.at(1, "other")
    if other is None:
        return _expand(given)
    facts, like = given.facts, given.facts_of(other)
    varies = facts.place.is_replicate and like.place.is_local and not like.lead.is_even
    return given.result(
        replace(
            facts,
            place=SHARD if varies else facts.place,
            lead=like.lead,
            rest=like.rest,
            ndim=like.ndim,
            total=facts.total if facts.total.is_uneven or like.elements.is_even else like.elements,
            parts=None,
        )
    )


def _rearranged(given: Operands) -> Value:
    """The same elements in other places."""
    return given.result(replace(elementwise([given.facts]), type="tensor"))


OPERATIONS: dict[str, Operation] = {
    **dict.fromkeys(["flatten", "ravel"], _flatten),
    **dict.fromkeys(["view", "reshape"], _view),
    **dict.fromkeys("transpose permute swapaxes movedim t".split(), _transpose),
    "squeeze": _squeeze,
    "unsqueeze": _unsqueeze,
    **dict.fromkeys("expand repeat tile broadcast_to".split(), _expand),
    **dict.fromkeys("expand_as view_as reshape_as".split(), _expand_as),
    **dict.fromkeys("roll flip cumsum".split(), _rearranged),
}
