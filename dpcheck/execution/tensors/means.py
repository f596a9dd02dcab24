"""Means of unequal weight: where one is made, and where several of them are averaged as if they weighed the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpcheck.execution.facts import Even, Facts, Mean, Site, replace
from dpcheck.execution.values import Const, Value

if TYPE_CHECKING:
    from dpcheck.execution.interpreter import Interpreter


def over(elements: Even, facts: Facts, site: Site) -> Mean | None:
    """What is noted of the mean over so many elements."""
    return Mean(site, elements) if elements.is_uneven and not facts.place.is_replicate else None


def of_sum(x: Facts, y: Facts) -> Mean | None:
    """What is noted of `x + y`."""
    return x.mean or y.mean


def of_product(x: Facts, y: Facts, b: Value, divides: bool, site: Site) -> Mean | None:
    """What is noted of `x * y` or `x / y`: a mean times its count is no mean any more."""
    if divides and _is_own_count(y):
        return Mean(site, y.total)
    if x.mean is not None and y.mean is None:
        return x.mean if isinstance(b, Const) or y.place.is_replicate else None
    return y.mean if x.mean is None and not divides and x.place.is_replicate else None


def _is_own_count(facts: Facts) -> bool:
    """Is it a number of things that this rank has, and others have more or fewer of?"""
    return facts.total.is_uneven and facts.ndim == 0 and facts.mean is None and not facts.place.is_replicate


def added(facts: Facts) -> Facts:
    """The facts of a number that was added to others of its kind."""
    return replace(facts, mean=facts.mean._replace(added=True)) if facts.mean is not None else facts


def divided(it: Interpreter, x: Facts, y: Facts, site: Site) -> bool:
    """Note the division that makes the mean of several means. Is it one?"""
    if x.mean is None or y.mean is not None or _is_own_count(y):
        return False
    if x.reduced is not None and y.place.is_replicate and y.place.world > 0:
        averaged(it, x, "ranks", site)
        return True
    if x.mean.added and y.type != "tensor":
        averaged(it, x, "batches", site)
        return True
    return False


def averaged(it: Interpreter, facts: Facts, over: str, site: Site) -> None:
    """Note where means are averaged over the ranks or over batches."""
    if facts.mean is not None:
        it.record("mean of means", site, None, mean=facts.mean, over=over, facts=facts)
