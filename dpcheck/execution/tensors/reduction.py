"""Sums, means, extremes and norms: what is left of the rows, and how a loss that is made so scales."""

from __future__ import annotations

import dataclasses

from dpcheck.execution import facts as facts_
from dpcheck.execution import placement
from dpcheck.execution.facts import (
    CONSTANT,
    EVEN,
    EVEN_UNKNOWN,
    Even,
    Facts,
    Site,
    SourceKind,
    Term,
    both,
    replace,
    without_gradient,
)
from dpcheck.execution.placement import Placement
from dpcheck.execution.tensors import arithmetic, means, terms
from dpcheck.execution.tensors.combining import elementwise, one_number
from dpcheck.execution.tensors.operands import Operands, Operation, covers_all, dims, keeps_rows
from dpcheck.execution.tensors.sizes import length_even
from dpcheck.execution.trail import element_of
from dpcheck.execution.values import Const, Data, Sequence, Value


def reduced(facts: Facts, averages: bool, site: Site) -> Facts:
    """The facts of the sum or mean over all elements."""
    if facts.coupled is not None:
        facts = replace(facts, coupled=facts.coupled._replace(loss=site))
    place = _reduced_place(facts.place, averages)
    addends = _reduced_terms(facts, facts.elements, averages, site)
    if facts.place.is_replicate and facts.place.spread:
        gathered = next((s.site for s in facts.sources if s.kind is SourceKind.RANK), None)
        return one_number(facts, place=place, total=EVEN, reduced=facts.reduced or gathered or site, terms=addends)
    return one_number(
        facts,
        place=place,
        total=EVEN_UNKNOWN if averages else facts.total,
        clean=False,
        ignored=(),
        gradient_of=(),
        gradient_ops=() if facts.gradient_of else facts.gradient_ops,
        terms=addends,
        parameter_of=(),
        mean=means.over(facts.elements, facts, site) if averages else facts.mean,
    )


def _reduced_place(place: Placement, averages: bool) -> Placement:
    return placement.mean(place) if averages else placement.total(place)


def _reduced_terms(facts: Facts, elements: Even, averages: bool, site: Site) -> tuple[Term, ...]:
    if not facts.grad:
        return ()
    return terms.unique(_reduced_term(term, elements, averages, site) for term in facts_.cut(facts))


def _reduced_term(term: Term, elements: Even, averages: bool, site: Site) -> Term:
    """A term that had an entry for each example and is summed or averaged over `elements` of them."""
    if term.place.is_unknown or not term.place.spread:
        return term
    place = _reduced_place(term.place, averages)
    if term.place.is_local and averages:
        return dataclasses.replace(term, place=place, even=elements, reduction=site, explicit=False)
    if term.place.is_local and place.size == 0 and term.reduction is None:
        return dataclasses.replace(term, place=place, reduction=site)
    return dataclasses.replace(term, place=place)


def _partly_reduced(facts: Facts, over: list[int] | None, averages: bool, site: Site) -> Facts:
    """The facts of the sum or mean over some dimensions."""
    if over is None:
        return replace(facts, lead=EVEN_UNKNOWN, rest=EVEN_UNKNOWN, total=EVEN_UNKNOWN, ndim=None, parts=None)
    ndim = facts.ndim - len(over) if facts.ndim is not None else None
    if keeps_rows(facts, over):
        total = facts.total if not averages else EVEN_UNKNOWN
        return replace(facts, rest=EVEN if over else facts.rest, total=total, ndim=ndim, parts=None, mask=False)
    return replace(
        facts,
        place=_reduced_place(facts.place, averages),
        lead=facts.rest,
        rest=EVEN,
        ndim=ndim,
        parts=None,
        mask=False,
        terms=_reduced_terms(facts, facts.lead, averages, site),
    )


def _reduction(given: Operands) -> Value:
    """sum, mean and their like, over all dimensions or some."""
    value = given.first("input", "x", "a")
    if isinstance(value, Sequence):
        element = element_of(value.content)
        facts = given.facts_of(element) if element is not None else CONSTANT
        facts = replace(facts, lead=both(facts.lead, length_even(value)))
    else:
        facts = given.facts
    averages = given.name in ("mean", "nanmean", "average")
    where = given.dim()
    over = dims(where)
    everything = where is None or (isinstance(where, Const) and where.value is None)
    if everything or (over is not None and covers_all(facts, over)):
        if averages:
            gathered = facts.place.is_replicate and facts.place.spread
            means.averaged(given.it, facts, "ranks" if gathered else "batches", given.site)
            facts = replace(facts, mean=None)
        return given.result(reduced(facts, averages, given.site))
    return given.result(_partly_reduced(facts, over, averages, given.site))


_FLAT = 2  # dimensions: over one of them, nothing but rows is left


def _extreme(given: Operands) -> Value:
    """max, min: over everything, over a dimension (values and indices), or of two tensors."""
    other = given.at(1, "other")
    if isinstance(other, Data) and other.facts.type == "tensor":
        return arithmetic.function(given)
    facts = given.facts
    if given.dim() is None:
        return given.result(one_number(elementwise([facts])))
    deep = facts.ndim is not None and facts.ndim > _FLAT
    best = replace(facts, rest=facts.rest if deep else EVEN, total=EVEN_UNKNOWN, parts=None)
    if given.name in ("amax", "amin"):
        return given.result(best)
    index = given.result(replace(without_gradient(best), clean=True, mask=False))
    if given.name in ("argmax", "argmin"):
        return index
    return Sequence([given.result(best), index], "tuple")


def _norm(given: Operands) -> Value:
    """norm, std, var: a number per row, or one for all that scales in no simple way."""
    facts = given.facts
    over = dims(given.dim(2 if given.name == "norm" else 1))
    base = elementwise([facts])
    if over is not None and keeps_rows(facts, over) and not covers_all(facts, over):
        return given.result(replace(base, rest=EVEN, ndim=None))
    known = base.place.is_replicate
    return given.result(
        one_number(
            base,
            place=base.place if known else placement.UNKNOWN,
            terms=base.terms if known else terms.unplaced(base.terms),
            gradient_of=(),
            gradient_ops=(),
        )
    )


OPERATIONS: dict[str, Operation] = {
    **dict.fromkeys("sum mean nansum nanmean average".split(), _reduction),
    **dict.fromkeys("max min amax amin argmax argmin".split(), _extreme),
    **dict.fromkeys("norm std var logsumexp prod median".split(), _norm),
}
