"""Constants that are written in among data: they mark elements that have no target, as -100 and padding do."""

from __future__ import annotations

from typing import Any

from dpcheck.execution.facts import EVEN_UNKNOWN, NOTHING, Evidence, Facts, Site, both, replace, uneven
from dpcheck.execution.tensors import arithmetic, dtypes, terms
from dpcheck.execution.tensors.combining import elementwise
from dpcheck.execution.tensors.operands import Operands, Operation
from dpcheck.execution.tensors.selection import found_places
from dpcheck.execution.tensors.sizes import brought_to, filled_up_to, length_even
from dpcheck.execution.trail import element_of
from dpcheck.execution.values import Const, Data, Sequence, Value

Marks = tuple[tuple[Any, Evidence], ...]
"""What was written in, and where."""


def written(value: Value, site: Site) -> Marks:
    """The mark that a number leaves where it is written in."""
    if not isinstance(value, Const) or not isinstance(value.value, (int, float)):
        return ()
    return ((value.value, Evidence(site, f"{value.value!r} is written here")),)


def _padded(filler: Value, site: Site) -> Marks:
    if not isinstance(filler, Const):
        return ()
    return ((filler.value, Evidence(site, f"padded with {filler.value!r} here")),)


def _where(given: Operands) -> Value:
    if len(given.args) == 1:
        return found_places(given, each_dimension=True)
    if len(given.args) < 3 or not isinstance(given.args[0], Data):
        return arithmetic.function(given)
    condition, a, b = given.args[:3]
    return given.result(_mixed(given, given.facts_of(condition), a, b))


def _masked_fill(given: Operands) -> Value:
    value, mask, filler = given.first(), given.at(1, "mask"), given.at(2, "value")
    if value is None or mask is None or filler is None:
        return arithmetic.function(given)
    return given.result(_mixed(given, given.facts_of(mask), filler, value))


def _mixed(given: Operands, condition: Facts, a: Value, b: Value) -> Facts:
    """Elements of `a` where the condition holds, of `b` elsewhere."""
    x, y = given.facts_of(a), given.facts_of(b)
    operands = [f for f in (x, y) if f.type == "tensor"] or [x, y]
    merged = elementwise([*operands, condition])
    return replace(
        merged,
        type="tensor",
        ignored=(*x.ignored, *y.ignored, *written(a, given.site), *written(b, given.site)),
        terms=terms.collapsed(terms.of_all(operands)) if merged.grad else (),
        total=condition.total if condition.total.is_uneven else merged.total,
        clean=x.clean and y.clean,
        mask=dtypes.is_truth(given, a) and dtypes.is_truth(given, b),
    )


def _pad(given: Operands) -> Value:
    """F.pad: a constant is written into the margin."""
    facts = given.facts
    amount = given.at(1, "pad")
    filler = given.at(3, "value") or Const(0)
    margins = (amount.items or []) if isinstance(amount, Sequence) else []
    lead, rest = facts.lead, facts.rest
    for margin in margins:
        if isinstance(margin, Data) and type(margin.identity) is tuple and margin.identity[0] == "rest":
            whole = given.facts_of(margin.identity[2]).total
            if facts.ndim == 1:
                lead = whole
            else:
                rest = whole
        elif isinstance(margin, Data):
            agreed = filled_up_to(margin)
            size = given.facts_of(agreed).total if agreed is not None else EVEN_UNKNOWN
            if facts.ndim == 1:
                lead = brought_to(lead, size)
            else:
                rest = brought_to(rest, size)
    known = bool(margins) and all(isinstance(margin, Const) for margin in margins)
    ignored = facts.ignored if known else facts.ignored + _padded(filler, given.site)
    return given.result(replace(facts, lead=lead, rest=rest, ignored=ignored, parts=None))


def _pad_sequence(given: Operands) -> Value:
    """Rows of different lengths, padded to the longest of them."""
    value = given.first("sequences")
    filler = given.at(2, "padding_value") or Const(0)
    count = length_even(value) if isinstance(value, Sequence) else EVEN_UNKNOWN
    one = element_of(value.content) if isinstance(value, Sequence) else value
    facts = given.facts_of(one) if one is not None else NOTHING
    length, ignored = facts.lead, facts.ignored
    if not length.is_even:
        ignored += _padded(filler, getattr(filler, "site", None) or given.site)
        length = uneven(Evidence(given.site, "padded to the longest of this rank's batch"))
    return given.result(
        replace(
            facts,
            type="tensor",
            lead=count,
            rest=both(facts.rest, length),
            ignored=ignored,
            ndim=facts.ndim + 1 if facts.ndim is not None else None,
            total=facts.total if facts.total.is_uneven or length.is_even else length,
            parts=None,
            mask=False,
        )
    )


OPERATIONS: dict[str, Operation] = {
    "where": _where,
    "masked_fill": _masked_fill,
    "pad": _pad,
    "pad_sequence": _pad_sequence,
}
