"""Which addends a loss has after an operation: how each of them is placed, and which have become one."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from dpcheck.execution import placement
from dpcheck.execution.facts import Facts, Term
from dpcheck.execution.placement import SHARD, Placement

_MOST_TERMS = 24


def unique(terms: Iterable[Term]) -> tuple[Term, ...]:
    return tuple(dict.fromkeys(terms))[:_MOST_TERMS]


def of_all(operands: Iterable[Facts]) -> tuple[Term, ...]:
    """The terms of all operands side by side."""
    return unique(term for operand in operands for term in operand.terms)


def with_place(term: Term, place: Placement) -> Term:
    return dataclasses.replace(term, place=place)


def unplaced(terms: Iterable[Term]) -> tuple[Term, ...]:
    """The terms after something of which it is not known how it scales."""
    return unique(with_place(term, placement.UNKNOWN) for term in terms)


def is_spread(term: Term) -> bool:
    """Has the term an entry for each example of this rank?"""
    return term.place.is_local and term.place.spread


def collapsed(terms: tuple[Term, ...]) -> tuple[Term, ...]:
    """Terms that meet element by element, before any reduction, are one term: so many losses, one for each example."""
    if len(terms) > 1 and any(is_spread(t) for t in terms):
        if all((is_spread(t) or t.place.is_replicate) and not t.scalings for t in terms):
            return (_one_for_each_example(terms),)
    return terms


def _one_for_each_example(terms: Iterable[Term]) -> Term:
    return Term(SHARD, unsure=any(t.unsure for t in terms))


def nonlinear(operands: list[Facts], place: Placement) -> tuple[Term, ...]:
    """The terms of a function that is not linear and whose result has this placement."""
    terms = [t for o in operands for t in o.terms]
    if all(t.place.is_replicate for t in terms) and place.is_replicate:
        return unique(terms)
    known = not place.is_unknown and not any(o.place.is_unknown for o in operands)
    if all(is_spread(t) or t.place.is_replicate for t in terms) and known:
        return (Term(SHARD, unsure=any(o.opaque for o in operands)),)
    return unplaced(terms)


def product(x: Facts, y: Facts) -> tuple[Term, ...]:
    """Both factors carry gradient: the result is per example where both are, a penalty where both are replicated."""
    terms = [*x.terms, *y.terms]
    if x.place.is_replicate and y.place.is_replicate:
        return unique(terms)
    if all(is_spread(t) for t in terms):
        return (_one_for_each_example(terms),)
    if x.place.is_replicate or y.place.is_replicate:
        # A learned scale or temperature times a local value: it varies as the local one does.
        return y.terms if x.place.is_replicate else x.terms
    return unplaced(terms)
