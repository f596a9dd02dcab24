"""Comparisons and tests: truth values, masks, and whether as many elements pass on every rank."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpcheck.execution import expressions
from dpcheck.execution.facts import (
    CONSTANT,
    EVEN,
    EVEN_UNKNOWN,
    NOTHING,
    Even,
    Evidence,
    Facts,
    Site,
    SourceKind,
    replace,
    uneven,
    without_gradient,
)
from dpcheck.execution.tensors.combining import one_number, test_facts
from dpcheck.execution.tensors.operands import Operands, Operation, covers_all, dims, keeps_rows
from dpcheck.execution.values import NONE, Const, Data, Value

if TYPE_CHECKING:
    from dpcheck.execution.interpreter import Interpreter

_ABOVE = {"==": False, "!=": True, ">": True, ">=": True, "<": False, "<=": False}
"""What each comparison says where the left side is greater than the right one."""


def compare(it: Interpreter, op: str, a: Value, b: Value, site: Site) -> Value:
    """A comparison whose outcome is not known: a truth value, or a mask where tensors are compared."""
    x, y = expressions.facts_of(it, a), expressions.facts_of(it, b)
    facts = test_facts([x, y])
    tensor = x.type == "tensor" or y.type == "tensor"
    kind = "tensor" if tensor else "bool"
    if x.ndim == 0 and y.ndim == 0:
        result = Data(replace(facts, ndim=0, type=kind), site)
        result.identity = ("test", op, _identity(a), _identity(b))
        return result
    count = _mask_count(op, x, y, a, b, site) if tensor else EVEN_UNKNOWN
    return Data(replace(facts, mask=tensor, type=kind, total=count), site)


def _identity(value: Value) -> object:
    if isinstance(value, Data):
        return value.identity
    if isinstance(value, Const):
        return value.value
    return value


def _mask_count(op: str, x: Facts, y: Facts, a: Value, b: Value, site: Site) -> Even:
    """Is the number of elements for which a comparison holds the same on every rank?"""
    if x.total.is_even and y.total.is_even and x.place.is_replicate and y.place.is_replicate:
        return EVEN if not (x.has(SourceKind.DRAW) or y.has(SourceKind.DRAW)) else _drawn(x, y, site)
    for data, constant in ((x, b), (y, a)):
        if isinstance(constant, Const) and isinstance(constant.value, (int, float)) and op in ("==", "!="):
            written = [why for value, why in data.ignored if value == constant.value or value is None]
            if written:
                return uneven(*written)
            if data.clean and constant.value < 0:
                return EVEN
    if x.permutation or y.permutation:
        return EVEN if (x.lead.is_even and y.lead.is_even) else EVEN_UNKNOWN
    known = [f for f in (x, y) if f.total.is_uneven]
    if known:
        return known[0].total
    if x.place.is_local or y.place.is_local:
        return uneven(Evidence(site, "which elements these are depends on this rank's data", sure=False))
    return EVEN_UNKNOWN


def _drawn(x: Facts, y: Facts, site: Site) -> Even:
    for facts in (x, y):
        for source in facts.of_kind(SourceKind.DRAW):
            if source.site is not None:
                return uneven(Evidence(source.site, "drawn at random here"))
    return uneven(Evidence(site, "drawn at random"))


def rank_comparison(op: str, a: Value, b: Value) -> bool | None:
    """Comparisons of the world size and the rank with constants, as a run on several ranks answers them."""
    if isinstance(a, Const) and isinstance(b, Data):
        flipped = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}.get(op, op)
        return rank_comparison(flipped, b, a)
    if not (isinstance(a, Data) and isinstance(b, Const)) or isinstance(b.value, bool):
        return None
    is_world_size, is_rank = a.identity == "world size", a.identity in ("rank", "local rank")
    limit = b.value
    if isinstance(limit, str):
        try:
            limit = int(limit)
        except ValueError:
            return {"==": False, "!=": True}.get(op) if is_world_size or is_rank else None
    if not isinstance(limit, (int, float)):
        return None
    if (is_world_size and limit <= 1) or (is_rank and limit < 0):
        return _ABOVE.get(op)
    if is_rank and limit == 0:
        return {">=": True, "<": False}.get(op)
    return None


def _comparison(op: str) -> Operation:
    def operate(given: Operands) -> Value:
        a, b = given.first("input"), given.at(1, "other")
        if a is None or b is None:
            return given.result(NOTHING)
        return compare(given.it, op, a, b, given.site)

    return operate


def _test(given: Operands) -> Value:
    """isnan, isfinite, isin: a mask."""
    facts = given.facts
    count = _mask_count("", facts, CONSTANT, NONE, NONE, given.site)
    return given.result(replace(test_facts([facts]), mask=True, type="tensor", total=count))


def _test_of_all(given: Operands) -> Value:
    """any, all: one truth value, or one for each of what is left without some dimensions."""
    facts = given.facts
    over = dims(given.dim())
    if given.name in ("any", "all") and over is not None and not covers_all(facts, over):
        answers = replace(test_facts([facts]), type="tensor", mask=True, total=EVEN_UNKNOWN, parts=None)
        if keeps_rows(facts, over):
            return given.result(replace(answers, rest=EVEN_UNKNOWN if facts.ndim is None else facts.rest, ndim=None))
        return given.result(replace(answers, lead=facts.rest, rest=EVEN_UNKNOWN, ndim=None))
    return given.result(one_number(test_facts([facts])))


def _as_mask(given: Operands) -> Value:
    return given.result(replace(without_gradient(given.facts), mask=True))


OPERATIONS: dict[str, Operation] = {
    "eq": _comparison("=="),
    **dict.fromkeys(["ne", "not_equal"], _comparison("!=")),
    **dict.fromkeys(["lt", "less"], _comparison("<")),
    **dict.fromkeys(["le", "less_equal"], _comparison("<=")),
    **dict.fromkeys(["gt", "greater"], _comparison(">")),
    **dict.fromkeys(["ge", "greater_equal"], _comparison(">=")),
    **dict.fromkeys(["isnan", "isfinite", "isinf", "isin"], _test),
    **dict.fromkeys(["any", "all", "equal", "allclose"], _test_of_all),
    **dict.fromkeys(["logical_not"], _as_mask),
}
