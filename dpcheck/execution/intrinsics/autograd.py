"""Autograd: backward, functions with a backward of their own, and where gradients are switched off."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, NamedTuple

from dpcheck.execution import calls, expressions, gradients
from dpcheck.execution.builtins import iteration, sequences
from dpcheck.execution.facts import EVEN, Cut, Facts, Site, Term, replace
from dpcheck.execution.intrinsics.arguments import Arguments, Table
from dpcheck.execution.placement import SHARD, UNKNOWN, Kind, Placement
from dpcheck.execution.values import FALSE, NONE, TRUE, Data, Sequence, Value, is_true, options

if TYPE_CHECKING:
    from dpcheck.execution.interpreter import Interpreter


def _hand_written(it: Interpreter, a: Arguments, site: Site) -> Value:
    """An autograd function: `forward()`, and `backward(gradient)` that says what reaches `args`.

    Where the forward holds no collective, autograd might as well see into it.
    """
    seen = len(it.run.events)
    result = calls.call(it, a["forward"], [], {}, site)
    operands = [expressions.facts_of(it, value) for value in iteration.exact_items(a["args"]) or []]
    given = [facts for facts in operands if facts.grad]
    inside = [event for event in it.run.events[seen:] if event.kind == "collective"]
    if not inside or not given:
        return result
    back = _rehearsed(it, a["backward"], site)
    gathers = any(event.name != "all_reduce" for event in inside)
    terms = []
    for term in dict.fromkeys(term for facts in given for term in facts.terms):
        place = UNKNOWN
        if back.world is not None and not term.place.is_unknown:
            place = Placement(Kind.REPLICATE, world=term.place.world + back.world - (1 if gathers else 0))
        terms.append(dataclasses.replace(term, place=place))
    cut = None if back.communicates else Cut(inside[-1].site, written=True)
    return _with_terms(it, result, tuple(terms), cut)


class _Backward(NamedTuple):
    """What a written backward does: the power of W in the gradient that it hands on, and does it communicate?"""

    world: int | None
    communicates: bool


def _rehearsed(it: Interpreter, backward: Value, site: Site) -> _Backward:
    """Call a backward with this rank's gradient, to see what comes of it, and take back what it changed."""
    mark, recorded, unread = it.trail.mark(), len(it.run.events), it.unread_calls
    given = Data(Facts(SHARD, type="tensor", lead=EVEN, rest=EVEN), site)
    back = calls.call(it, backward, [given], {}, site)
    communicates = any(event.kind == "collective" for event in it.run.events[recorded:]) or it.unread_calls > unread
    del it.run.events[recorded:]
    it.trail.undo(mark)
    places = {expressions.facts_of(it, value).place for value in _first_item(it, back)}
    worlds = {place.world for place in places}
    known = len(worlds) == 1 and not any(place.is_unknown for place in places)
    return _Backward(worlds.pop() if known else None, communicates)


def _first_item(it: Interpreter, value: Value) -> list[Value]:
    """The gradient of the first argument."""
    items = iteration.exact_items(value) if isinstance(value, Sequence) else None
    return list(options(items[0] if items else value))


def _with_terms(it: Interpreter, value: Value, terms: tuple[Term, ...], cut: Cut | None) -> Value:
    """A value (or a list of values) that carries these terms."""
    if isinstance(value, Sequence):
        if value.items is not None:
            return Sequence([_with_terms(it, item, terms, cut) for item in value.items], value.kind, site=value.site)
        element = _with_terms(it, value.element, terms, cut) if value.element is not None else None
        return sequences.alike(value, element)
    if not isinstance(value, Data):
        return value
    spread = value.facts.place.is_replicate and value.facts.place.spread
    held = tuple(
        dataclasses.replace(term, place=dataclasses.replace(term.place, spread=spread))
        if term.place.is_replicate
        else term
        for term in terms
    )
    return Data(replace(value.facts, grad=True, terms=held, detached=cut), value.site)


def _no_grad(it: Interpreter, a: Arguments, site: Site) -> Value:
    """Switch gradients off or on; answers what they were."""
    before = it.machine.get("no grad") is True
    it.trail.set(it.machine, "no grad", is_true(a.get("off")))
    return TRUE if before else FALSE


def _backward(it: Interpreter, a: Arguments, site: Site) -> Value:
    gradients.backward(it, a["loss"], site)
    return NONE


INTRINSICS: Table = {
    "hand_written": (_hand_written, ("forward", "backward", "args")),
    "backward": (_backward, ("loss",)),
    "no_grad": (_no_grad, ("off",)),
}
