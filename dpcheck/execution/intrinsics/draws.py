"""Draws: seeds, random numbers, lists in random order, and the clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpcheck.execution import expressions, randomness, tensors
from dpcheck.execution.builtins import iteration, subscripts
from dpcheck.execution.facts import (
    CONSTANT,
    EVEN,
    Difference,
    Evidence,
    Facts,
    Site,
    Source,
    SourceKind,
    replace,
    uneven,
)
from dpcheck.execution.intrinsics.arguments import Arguments, Table
from dpcheck.execution.placement import Kind, Placement
from dpcheck.execution.trail import element_of
from dpcheck.execution.values import NONE, Const, Content, Data, Sequence, Value, is_none, is_true, options, text_of

if TYPE_CHECKING:
    from dpcheck.execution.interpreter import Interpreter


def _seed(it: Interpreter, a: Arguments, site: Site) -> Value:
    randomness.seed(it, text_of(a.get("library", Const("all"))), a["seed"], site)
    return NONE


def _drawn(it: Interpreter, a: Arguments, site: Site) -> Value:
    """A random number or array: `drawn("numpy")`, `drawn("python", generator=g)`; `like` or `size` gives the shape.

    `permutation`: the numbers from 0 on in random order.
    """
    permutes = is_true(a.get("permutation"))
    state = randomness.random_state(it, a.get("generator"), text_of(a.get("library")))
    like = expressions.facts_of(it, a["like"]) if "like" in a else replace(CONSTANT, ndim=0)
    size = a.get("size", NONE)
    if not is_none(size):
        filled = tensors.filled(it, [size])
        like = replace(filled, type="tensor")
    source = randomness.draw(it, state, site, single=like.ndim == 0, permutes=permutes)
    facts = Facts(
        state.place,
        type=like.type if like.type == "tensor" else "number",
        lead=like.lead,
        rest=like.rest,
        ndim=like.ndim,
        total=EVEN if permutes else uneven(Evidence(site, "drawn at random here")),
        sources=frozenset((source,)),
        clean=True,
        permutation=permutes,
        differs=randomness.differing(state, site),
    )
    return Data(facts, site)


def _shuffled(it: Interpreter, a: Arguments, site: Site) -> Value:
    """A list in random order: a draw happens, the elements stay what they are."""
    state = randomness.random_state(it, a.get("generator"), text_of(a.get("library")))
    it.record("shuffle", site, a["sequence"], state=state)
    for one in options(a["sequence"]):
        element = element_of(one.content) if isinstance(one, Sequence) else None
        if isinstance(one, Sequence) and element is not None:
            length = iteration.length_facts(one)
            # Which element stands where depends on the draw: on each rank another one, where the draws differ.
            by = replace(
                CONSTANT, place=state.place, sources=frozenset((randomness.draw(it, state, site, permutes=True),))
            )
            element = subscripts.placed_by(element, by)
            it.trail.set(one.state, "content", Content(None, element, length))
    return a["sequence"]


def _now(it: Interpreter, a: Arguments, site: Site) -> Value:
    source = Source(SourceKind.TIME, site)
    time = Facts(Placement(Kind.LOCAL), type="number", lead=EVEN, rest=EVEN, total=EVEN, ndim=0)
    return Data(replace(time, sources=frozenset((source,)), differs=(Difference(SourceKind.TIME, site),)), site)


INTRINSICS: Table = {
    "seed": (_seed, ("library", "seed")),
    "drawn": (_drawn, ("library",)),
    "shuffled": (_shuffled, ("library", "sequence")),
    "now": (_now, ()),
}
