"""Tensors made from a shape: filled with one content, a range of numbers, or numbers drawn at random."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from dpcheck.execution import divisions, expressions, placement, randomness
from dpcheck.execution.facts import (
    CONSTANT,
    EVEN,
    EVEN_UNKNOWN,
    Even,
    Evidence,
    Facts,
    SourceKind,
    both,
    differences,
    replace,
    uneven,
)
from dpcheck.execution.placement import SHARD
from dpcheck.execution.tensors import dtypes
from dpcheck.execution.tensors.operands import Operands, Operation
from dpcheck.execution.tensors.sizes import filled_up_to, size_even
from dpcheck.execution.values import NONE, Const, Data, Sequence, Value

if TYPE_CHECKING:
    from dpcheck.execution.interpreter import Interpreter


def filled(it: Interpreter, sizes: list[Value], ranges: bool = False) -> Facts:
    """The facts of a tensor of this shape: the same content wherever the shape is the same.

    `ranges`: the sizes are the ends of a range of numbers.
    """
    if len(sizes) == 1 and isinstance(sizes[0], Sequence):
        shape = sizes[0]
        if shape.items is None:
            rest = expressions.facts_of(it, shape.element).total if shape.element is not None else EVEN_UNKNOWN
            return _fill(size_even(shape.state.get("lead"), rest), rest, None)
        sizes = shape.items
    if not sizes:
        return _fill(EVEN, EVEN, 0)
    if ranges:
        return _fill(size_even(sizes[-1], EVEN), EVEN, 1)
    lead, *others = [size_even(size, EVEN) for size in sizes]
    if lead.is_even and any(isinstance(size, Data) and size.facts.place.is_unknown for size in sizes):
        lead = EVEN_UNKNOWN
    return _fill(lead, reduce(both, others, EVEN), len(sizes))


def _fill(lead: Even, rest: Even, ndim: int | None) -> Facts:
    count = both(lead, rest)
    if count.is_even:
        return replace(CONSTANT, type="tensor", ndim=ndim)
    place = SHARD if count.is_uneven else placement.UNKNOWN
    return Facts(place, type="tensor", lead=lead, rest=rest, total=count, ndim=ndim, clean=True)


def _between(facts: Facts, bounds: list[Facts]) -> Facts:
    """The facts of the numbers between these bounds: this rank's own where a bound knows the rank."""
    own = [b for b in bounds if not b.place.is_replicate and (b.has(SourceKind.RANK) or b.has(SourceKind.LOCAL_RANK))]
    if not own:
        return facts
    sources = facts.sources.union(*(bound.sources for bound in own))
    place = facts.place if facts.place.is_unknown else SHARD
    return replace(facts, place=place, sources=sources, differs=differences((facts, *own)))


def _filled(given: Operands) -> Value:
    sizes = given.args[:1] if given.name in ("full", "full_like") else given.args
    if "size" in given.kwargs:
        sizes = [given.kwargs["size"]]
    ranges = given.name in ("arange", "linspace", "range")
    facts = filled(given.it, sizes, ranges=ranges)
    content = given.at(1, "fill_value") if given.name == "full" else None
    facts = replace(facts, mask=dtypes.made(given, content is not None and dtypes.is_truth(given, content)))
    if ranges:
        facts = _between(facts, [given.facts_of(bound) for bound in sizes])
        divisions.ranged(given.it, sizes, given.site)
    result = given.result(facts)
    return _counted(result, sizes if not ranges or len(sizes) == 1 else sizes[2:3])


def _counted(result: Data, sizes: list[Value]) -> Data:
    """The tensor, with the number of its rows as it was given, and the size that something else has with it beside."""
    if len(sizes) == 1 and isinstance(sizes[0], Sequence):
        sizes = sizes[0].items or []
    if sizes and isinstance(sizes[0], (Const, Data)):
        result.state["count"] = sizes[0]
    whole = next((whole for size in sizes if (whole := filled_up_to(size)) is not None), None)
    if whole is not None:
        result.state["fills up to"] = whole
    return result


def _new_filled(given: Operands) -> Value:
    return _filled(given.beside_receiver())


def _fill_in_place(given: Operands) -> Value:
    facts, content = given.facts, given.at(1, "value")
    differs = given.facts_of(content).differs if content is not None else ()
    return given.result(replace(_fill(facts.lead, facts.rest, facts.ndim), differs=differs))


def _filled_like(given: Operands) -> Value:
    facts = given.facts
    made = _fill(facts.lead, facts.rest, facts.ndim)
    if made.place.is_unknown and facts.place.is_local:
        made = replace(made, place=SHARD)
    return given.result(replace(made, mask=dtypes.made(given, facts.mask)))


# ---- random draws


def _draw(given: Operands) -> Value:
    """A draw: as replicated as the random state it comes from, and different from element to element."""
    it, site, name = given.it, given.site, given.name
    state = randomness.random_state(it, given.kwargs.get("generator"), "torch")
    sizes = given.args
    if name == "randint":
        named = [given.kwargs["size"]] if "size" in given.kwargs else []
        sizes = [v for v in sizes if isinstance(v, Sequence)] or named
    lead, rest, ndim = _drawn_shape(given, sizes)
    place = state.place
    if place.is_replicate and both(lead, rest).is_uneven:
        place = SHARD
    permutation = name == "randperm"
    source = randomness.draw(it, state, site, single=ndim == 0 or _is_one(sizes), permutes=permutation)
    like = name.endswith("_like") or name in ("bernoulli", "multinomial", "normal", "poisson", "uniform")
    shape = [given.kwargs["size"]] if "size" in given.kwargs else sizes
    result = given.result(
        Facts(
            place,
            type="tensor",
            lead=lead,
            rest=rest,
            ndim=ndim,
            total=EVEN if permutation else uneven(Evidence(site, "drawn at random here")),
            sources=frozenset((source,)),
            clean=True,
            permutation=permutation,
            differs=randomness.differing(state, site),
        )
    )
    return result if like else _counted(result, shape)


def _drawn_shape(given: Operands, sizes: list[Value]) -> tuple[Even, Even, int | None]:
    """Is the first dimension the same on every rank, is the rest, and how many dimensions are there?"""
    if given.name == "randperm":
        return size_even(sizes[0] if sizes else None, EVEN), EVEN, 1
    if given.name.endswith("_like") or given.name in ("bernoulli", "multinomial", "normal", "poisson"):
        shaped = given.facts
    else:
        shaped = filled(given.it, [given.kwargs["size"]] if "size" in given.kwargs else sizes)
    return shaped.lead, shaped.rest, shaped.ndim


def _is_one(sizes: list[Value]) -> bool:
    """Is it the shape of a single number?"""
    numbers = [v for size in sizes for v in ((size.items or [NONE]) if isinstance(size, Sequence) else [size])]
    return bool(numbers) and all(isinstance(n, Const) and n.value == 1 for n in numbers)


OPERATIONS: dict[str, Operation] = {
    **dict.fromkeys("zeros ones empty full eye arange linspace range".split(), _filled),
    **dict.fromkeys("new new_zeros new_ones new_empty new_full".split(), _new_filled),
    **dict.fromkeys("zeros_like ones_like empty_like full_like".split(), _filled_like),
    **dict.fromkeys(["zero", "fill"], _fill_in_place),
    **dict.fromkeys(
        "rand randn randint randperm rand_like randn_like randint_like bernoulli multinomial normal uniform"
        " poisson".split(),
        _draw,
    ),
}
