"""How a script divides data among the ranks by itself: slices, picks, ranges and tests that know the rank.

A "division" event tells what was divided and by which rank and number; `sources` lead from there to the losses that
were computed from this rank's part. What was cut to a number that knows the world size before is marked: its parts are
even.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from dpcheck.execution import expressions, randomness
from dpcheck.execution.builtins import subscripts
from dpcheck.execution.facts import Facts, Site, Source, SourceKind, replace
from dpcheck.execution.formulas import formula_of, symbols_of
from dpcheck.execution.placement import SHARD
from dpcheck.execution.values import NONE, Const, Data, Sequence, Value

if TYPE_CHECKING:
    from dpcheck.execution.interpreter import Interpreter

_RANKS = (SourceKind.RANK, SourceKind.LOCAL_RANK)


def sliced(it: Interpreter, value: Value, bounds: list[Value], result: Value, site: Site) -> None:
    """`value[lower:upper:step]`, the first dimension."""
    lower, upper, step = (*bounds, NONE, NONE, NONE)[:3]
    if _by_rank(it, bounds):
        _note(it, "stride" if _is_given(step) else "block", value, lower, upper, step, site)
    elif knows_world(upper):
        mark_cut(result)
    else:
        pass_on(value, result)


def picked(it: Interpreter, value: Value, index: Value, site: Site) -> None:
    """`value[rank]`: one of a few parts."""
    if _by_rank(it, [index]):
        _note(it, "pick", value, index, NONE, NONE, site)


def ranged(it: Interpreter, bounds: list[Value], site: Site) -> None:
    """`range(rank, n, world_size)`."""
    if len(bounds) == 3 and _by_rank(it, bounds):
        _note(it, "range", None, bounds[0], bounds[1], bounds[2], site)


def strided(it: Interpreter, value: Value, item: Value, bounds: list[Value], site: Site) -> None:
    """`islice(stream, rank, None, world_size)`; `item`: an element of the stream."""
    if len(bounds) == 3 and _by_rank(it, bounds):
        _note(it, "stride", value, bounds[0], bounds[1], bounds[2], site, item)


def tested(it: Interpreter, op: str, a: Value, b: Value, site: Site) -> None:
    """`index % world_size == rank`."""
    for number, other in ((a, b), (b, a)):
        modulus = number.facts.modulus if isinstance(number, Data) else None
        if op in ("==", "!=") and modulus is not None and isinstance(other, Data) and _by_rank(it, [other]):
            _note(it, "test", None, other, NONE, modulus.value, site)


def let_through(it: Interpreter, value: Value, tests: Iterable[Facts] | None = None) -> Value:
    """An element that is passed on where a test that knows the rank holds: this rank's own.

    `tests`: what is known of those tests; where they are not given, those of the passes of loops that are under way.
    """
    if tests is None:
        tests = [guard.facts for guard in it.guards if guard.loops and guard.by_rank]
    for test in tests:
        ranks = frozenset(source for source in test.sources if source.kind in _RANKS)
        if ranks and not test.place.is_replicate:
            value = subscripts.placed_by(value, replace(test, place=SHARD, sources=ranks))
    return value


def _note(
    it: Interpreter,
    how: str,
    value: Value | None,
    start: Value,
    stop: Value,
    step: Value,
    site: Site,
    item: Value | None = None,
) -> None:
    given = [expressions.facts_of(it, bound) for bound in (start, stop, step)]
    sources = frozenset(source for facts in given for source in facts.sources if source.kind in _RANKS)
    known = item if item is not None else value
    facts = expressions.facts_of(it, known) if known is not None else None
    even = (value is not None and is_cut(value)) or knows_world(stop)
    it.record(
        "division", site, value, how=how, start=start, stop=stop, step=step, sources=sources, facts=facts, even=even
    )


def _by_rank(it: Interpreter, bounds: list[Value]) -> bool:
    """Does the rank decide? An index that a loop or a sampler counts has been divided before."""
    facts = [expressions.facts_of(it, bound) for bound in bounds if not isinstance(bound, Const)]
    own = [each for each in facts if any(map(each.has, _RANKS))]
    return bool(own) and not any(each.has(SourceKind.COUNTER) or each.has(SourceKind.DRAW) for each in own)


def _is_given(bound: Value) -> bool:
    return not (isinstance(bound, Const) and bound.value in (None, 1))


def knows_world(value: Value) -> bool:
    """Was a number computed from the world size?"""
    return any(symbol.key == "world size" for symbol in symbols_of(formula_of(value)))


def is_cut(value: Value) -> bool:
    return isinstance(value, (Data, Sequence)) and "cut to the ranks" in value.state


def mark_cut(value: Value) -> None:
    if isinstance(value, (Data, Sequence)):
        value.state["cut to the ranks"] = True


def pass_on(value: Value, result: Value) -> None:
    """The result has as many elements as the value, or more by those that pad it."""
    if is_cut(value):
        mark_cut(result)


def flows(sources: frozenset[Source], facts: Facts) -> bool:
    """Was a value computed from something that these sources mark, or drawn from a state that they seeded?"""
    return not sources.isdisjoint(origins(facts))


def origins(facts: Facts) -> frozenset[Source]:
    """What a value was computed from, and what the states were seeded by that it was drawn from."""
    states = [source.of for source in facts.of_kind(SourceKind.DRAW)]
    return facts.sources.union(*(s.sources for s in states if isinstance(s, randomness.RandomState)))
