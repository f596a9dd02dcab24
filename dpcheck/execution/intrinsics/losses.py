"""Losses: of the single targets, and reduced over those that count."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from dpcheck.execution import expressions, placement, tensors
from dpcheck.execution import facts as facts_
from dpcheck.execution.facts import EVEN, EVEN_UNKNOWN, Even, Evidence, Facts, Mean, Site, Term, replace, uneven
from dpcheck.execution.intrinsics.arguments import Arguments, Table
from dpcheck.execution.placement import REPLICATE, SHARD, UNKNOWN, Kind, Placement
from dpcheck.execution.trail import join_all
from dpcheck.execution.values import NONE, Const, Data, Value, is_none, is_true, options, text_of

if TYPE_CHECKING:
    from dpcheck.execution.interpreter import Interpreter


def _per_target(it: Interpreter, a: Arguments, site: Site) -> Value:
    """The losses of the single targets. `classes`: the input has one dimension more than the target."""
    x, target = expressions.facts_of(it, a["input"]), expressions.facts_of(it, a["target"])
    return Data(_per_target_facts(x, target, is_true(a.get("classes"))), site)


def _per_target_facts(x: Facts, target: Facts, classes: bool) -> Facts:
    known = target if target.type == "tensor" or not target.lead.is_even else x
    rest = target.rest if classes else facts_.same_count(target.rest, x.rest)
    if classes and not target.rest.is_even and target.ndim == 1:
        rest = EVEN
    place = _place_of_losses(x, target)
    grad = x.grad or target.grad
    return Facts(
        # The same losses on every rank lie as the input does, if they carry gradient.
        Placement(Kind.REPLICATE, spread=x.place.spread) if grad and place.is_replicate else place,
        type="tensor",
        lead=facts_.same_count(target.lead, x.lead),
        rest=rest,
        total=EVEN_UNKNOWN,
        ndim=known.ndim if known is target else None,
        sources=x.sources | target.sources,
        grad=grad,
        terms=_terms_of_losses(x, target, place) if grad else (),
        detached=x.detached or target.detached,
        coupled=x.coupled or target.coupled,
        opaque=x.opaque or target.opaque,
        differs=facts_.differences((x, target)),
    )


def _place_of_losses(x: Facts, target: Facts) -> Placement:
    if x.place.is_replicate and target.place.is_replicate:
        return REPLICATE
    if x.detached is not None and not x.place.is_local:
        return UNKNOWN  # of gathered rows and this rank's own nobody knows which these are
    return UNKNOWN if x.place.is_unknown and not x.grad and target.place.is_unknown else SHARD


def _terms_of_losses(x: Facts, target: Facts, place: Placement) -> tuple[Term, ...]:
    terms = x.terms + target.terms
    if place.is_replicate:
        # The same losses on every rank, each with the gradient that reaches this one.
        return tuple(dict.fromkeys(terms))
    spread = [t for t in terms if not t.place.is_replicate]
    readable = all((t.place.is_local and t.place.spread) or t.place.is_unknown for t in spread)
    base = next((t for t in spread if t.scalings), None)
    unsure = x.opaque or target.opaque
    return (Term(place if readable else UNKNOWN, scalings=base.scalings if base else (), unsure=unsure),)


def _reduce_targets(it: Interpreter, a: Arguments, site: Site) -> Value:
    """A loss function's own reduction: "mean", "sum" or "none" over the targets that are not ignored or masked."""
    x, target = expressions.facts_of(it, a["input"]), expressions.facts_of(it, a["target"])
    losses = _per_target_facts(x, target, is_true(a.get("classes")))
    results: list[Value] = []
    for reduction in options(a.get("reduction", Const("mean"))):
        kind = text_of(reduction)
        if kind == "none":
            facts = losses
        elif kind == "sum":
            facts = tensors.reduced(losses, False, site)
        elif kind in ("mean", "batchmean", "elementwise_mean"):
            even = losses.lead if kind == "batchmean" else _target_count(losses, target, a, site)
            facts = _mean_of_losses(it, losses, even, site)
        else:
            facts = tensors.unknown_result([x, target])
        results.append(Data(facts, site))
    return join_all(results)


def _mean_of_losses(it: Interpreter, losses: Facts, even: Even, site: Site) -> Facts:
    """The mean of losses over a count; is that `even`?"""
    facts = tensors.reduced(losses, True, site)
    terms = tuple(dataclasses.replace(t, even=even) if t.reduction == site else t for t in facts.terms)
    return replace(facts, terms=terms, total=EVEN_UNKNOWN, mean=Mean(site, even) if even.is_uneven else None)


def _target_count(losses: Facts, target: Facts, a: Arguments, site: Site) -> Even:
    """Is the number of targets that a mean divides by the same on every rank?"""
    count = losses.elements
    weight = a.get("weight", NONE)
    if not is_none(weight):
        if not any(is_none(one) for one in options(weight)):
            where = weight.site if isinstance(weight, (Data, Const)) and weight.site is not None else site
            text = "the mean divides by the sum of these class weights over this rank's targets"
            return uneven(Evidence(where, text))
        count = _doubted(count)
    for index in options(a.get("ignore_index")):
        others = _targets_beside(index, target, site)
        if others.is_uneven:
            return others
        if not others.is_even:
            count = _doubted(count)
    return count


def _doubted(count: Even) -> Even:
    return EVEN_UNKNOWN if count.is_even else count


def _targets_beside(index: Value, target: Facts, site: Site) -> Even:
    """Is the number of targets that are not this `ignore_index` the same on every rank, if that of all of them is?"""
    if isinstance(index, Const):
        written = [why for value, why in target.ignored if value == index.value]
        if written:
            return uneven(*written)
        if target.clean and isinstance(index.value, int) and index.value < 0:
            return EVEN
        if index.site is not None and isinstance(index.value, int) and index.value >= 0:
            # No code in sight writes it; a file may hold it, as label images hold 255 where nothing is labelled.
            # A negative one does not come out of files: it stays idle until somebody writes it.
            return uneven(Evidence(index.site, f"targets equal to {index.value!r} are not counted", sure=False))
        return EVEN if target.clean else EVEN_UNKNOWN
    if isinstance(index, Data):
        if target.ignored:
            return uneven(*(why for _, why in target.ignored))
        if _is_of_a_shape(index.facts):
            # A number beyond all classes: meant for targets that do not occur as a rule.
            return EVEN_UNKNOWN
        # What another file makes it from, such as a vocabulary, says less than the loss that it is given to.
        where = index.site if index.site is not None and index.site.path == site.path else site
        return uneven(Evidence(where, "targets equal to this ignore_index are not counted", sure=False))
    return EVEN


def _is_of_a_shape(number: Facts) -> bool:
    """Is it made from a shape, and not from a setting or a file?"""
    return not number.sources if number.place.is_replicate else number.type == "int"


def _count_targets(it: Interpreter, a: Arguments, site: Site) -> Value:
    """How many of this rank's targets are not `ignore_index`."""
    target = expressions.facts_of(it, a["target"])
    even = _target_count(target, target, {"ignore_index": a.get("ignore_index", Const(-100))}, site)
    return Data(
        Facts(placement.PARTIAL, type="int", total=even, lead=EVEN, rest=EVEN, ndim=0, sources=target.sources), site
    )


INTRINSICS: Table = {
    "per_target": (_per_target, ("input", "target", "classes")),
    "reduce_targets": (_reduce_targets, ("input", "target", "reduction")),
    "count_targets": (_count_targets, ("target", "ignore_index")),
}
