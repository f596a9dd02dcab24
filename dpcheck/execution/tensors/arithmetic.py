"""Operators and functions of single elements: sums, products, quotients, exp, and how they scale a loss."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from dpcheck.execution import expressions, placement
from dpcheck.execution import facts as facts_
from dpcheck.execution.facts import (
    EVEN,
    EVEN_UNKNOWN,
    NOTHING,
    Even,
    Facts,
    Modulus,
    Site,
    SourceKind,
    Term,
    both,
    replace,
    scale,
)
from dpcheck.execution.placement import SHARD, Kind, Placement
from dpcheck.execution.tensors import coupling, means, terms
from dpcheck.execution.tensors.autograd import recorded
from dpcheck.execution.tensors.combining import any_uneven, elementwise
from dpcheck.execution.tensors.operands import Operands, Operation
from dpcheck.execution.values import Const, Data, Value

if TYPE_CHECKING:
    from dpcheck.execution.interpreter import Interpreter


def binary(it: Interpreter, op: str, a: Value, b: Value, site: Site) -> Value:
    """`a op b` where not both are constants."""
    if op == "%" and isinstance(b, Const) and b.value == 1:
        return Const(0)
    x, y = expressions.facts_of(it, a), expressions.facts_of(it, b)
    result = Data(recorded(it, coupling.met(_combined(it, op, x, y, a, b, site), x, y, op, site)), site)
    if op == "-" and isinstance(b, Data) and type(b.identity) is tuple and b.identity[0] == "len":
        result.identity = ("rest", b.identity, a)
    elif op == "+" and x.ndim in (0, None) and y.ndim in (0, None) and isinstance(a, Data):
        result.identity = ("sum", a.identity, b)
    return result


def unary(it: Interpreter, op: str, value: Value, site: Site) -> Value:
    """`-value`, `+value`, `~value`."""
    facts = expressions.facts_of(it, value)
    return Data(replace(facts, mask=True) if op == "~" else facts, site)


def _combined(it: Interpreter, op: str, x: Facts, y: Facts, a: Value, b: Value, site: Site) -> Facts:
    if op in ("+", "-"):
        return _sum(x, y, a, b)
    if op == "*":
        return _product(it, x, y, a, b, site, divides=False)
    if op in ("/", "//"):
        return _product(it, x, y, a, b, site, divides=True)
    if op == "%":
        counts = x.has(SourceKind.COUNTER) or x.type in ("int", "number")
        return replace(elementwise([x, y]), modulus=Modulus(y.place, b) if counts else x.modulus)
    if op == "@":
        return _matmul(x, y)
    facts = elementwise([x, y])
    if op in ("&", "|", "^"):
        mask = x.mask or y.mask
        return replace(facts, mask=mask, total=any_uneven([x, y]) if mask and not facts.total.is_even else facts.total)
    return facts


def _sum(x: Facts, y: Facts, a: Value, b: Value) -> Facts:
    base = elementwise([x, y])
    literal = isinstance(a, Const) or isinstance(b, Const)
    main = y if isinstance(a, Const) else x
    if isinstance(b, Const):
        place = x.place
    elif isinstance(a, Const):
        place = y.place
    else:
        place = placement.add(x.place, y.place)
    if place.is_unknown and base.place.is_local:
        place = base.place
    addends: tuple[Term, ...] = ()
    detached = base.detached
    if base.grad:
        if x.ndim == 0 and y.ndim == 0:
            # Finished losses: each addend answers for its own collectives, also one that has lost all gradient.
            lost = [Term(placement.UNKNOWN, detached=o.detached) for o in (x, y) if o.detached and not o.grad]
            addends, detached = terms.unique([*facts_.cut(x), *facts_.cut(y), *lost]), None
        else:
            addends = terms.collapsed(terms.of_all((x, y)))
    return replace(
        base,
        place=place,
        total=main.total if literal else both(x.total, y.total),
        terms=addends,
        detached=detached,
        reduced=x.reduced or y.reduced,
        summed=x.summed if x.reduced else y.summed,
        modulus=x.modulus or y.modulus,
        clean=x.clean and y.clean,
        ignored=(),
        mean=means.of_sum(x, y),
    )


def _product(it: Interpreter, x: Facts, y: Facts, a: Value, b: Value, site: Site, divides: bool) -> Facts:
    base = elementwise([x, y])
    place = placement.divide(x.place, y.place) if divides else placement.multiply(x.place, y.place)
    if place.is_unknown and base.place.is_local:
        place = base.place
    ops = base.gradient_ops
    if base.gradient_of:
        of, by, factor = (x, y, b) if x.gradient_of else (y, x, a)
        ops = (*of.gradient_ops, (site, by, divides, factor))
    plain = (x.ndim == 0 and y.ndim == 0) or isinstance(a, Const) or isinstance(b, Const)
    mean = None if divides and means.divided(it, x, y, site) else means.of_product(x, y, b, divides, site)
    return replace(
        base,
        place=place,
        total=both(x.total, y.total) if plain else _product_total(x, y),
        terms=_product_terms(it, x, y, a, b, site, divides),
        reduced=x.reduced or y.reduced,
        summed=x.summed if x.reduced else y.summed,
        gradient_ops=ops,
        clean=x.clean and y.clean,
        mask=x.mask and y.mask,
        mean=mean,
    )


def _product_terms(
    it: Interpreter, x: Facts, y: Facts, a: Value, b: Value, site: Site, divides: bool
) -> tuple[Term, ...]:
    if x.grad and y.grad:
        return terms.product(x, y)
    if x.grad:
        where = _chosen(it, b, site)
        return terms.unique(scale(term, y, b, where, divides) for term in x.terms)
    if y.grad and divides:
        return terms.unique(terms.with_place(t, SHARD if t.place.spread else placement.UNKNOWN) for t in y.terms)
    if y.grad:
        where = _chosen(it, a, site)
        return terms.unique(scale(term, x, a, where, False) for term in y.terms)
    return ()


def _chosen(it: Interpreter, value: Value, site: Site) -> Site:
    """Where a factor comes in: a library's own division stands where the user chose the divisor."""
    if it.frame.unit.is_stub and isinstance(value, (Const, Data)) and value.site is not None:
        return value.site
    return site


def _product_total(x: Facts, y: Facts) -> Even:
    """The total of a product element by element, as with a mask."""
    if x.total.is_even and y.total.is_even and x.place.is_replicate and y.place.is_replicate:
        return EVEN
    return any_uneven([x, y])


def _matmul(x: Facts, y: Facts) -> Facts:
    base = elementwise([x, y])
    place = base.place
    if x.place.is_local or y.place.is_local:
        place = SHARD
    elif x.place.is_replicate and y.place.is_replicate:
        # Rows gathered from all ranks stay rows on the left; elsewhere they are summed over.
        place = Placement(Kind.REPLICATE, spread=x.place.spread and x.axis == 0)
        base = replace(base, terms=terms.unique(_among(t, place) for t in base.terms))
    return replace(base, place=place, lead=x.lead, rest=both(x.rest, y.rest), total=EVEN_UNKNOWN, axis=0)


def _among(term: Term, place: Placement) -> Term:
    """A replicated term is spread no further than the tensor that it is in."""
    if not term.place.is_replicate:
        return term
    return terms.with_place(term, dataclasses.replace(term.place, spread=place.spread and term.place.spread))


# ---- by name


def function(given: Operands) -> Value:
    """A function of one or several tensors that is not linear, or of which it is not known."""
    return given.result(replace(elementwise(given.varying()), type="tensor"))


def _clamp(given: Operands) -> Value:
    """`clamp` and the like: a count stays a count."""
    bounds = [v for v in (*given.args[1:], *given.kwargs.values()) if isinstance(v, Data) and v.facts.type == "tensor"]
    facts = given.facts
    if bounds and facts.ndim != 0:
        return function(given)
    value = given.first("input")
    return Data(facts, value.site if isinstance(value, Data) else given.site)


def _negative(given: Operands) -> Value:
    return given.result(given.facts)


def _operator(op: str) -> Operation:
    def operate(given: Operands) -> Value:
        a, b = given.first("input"), given.at(1, "other")
        if a is None or b is None:
            return given.result(NOTHING)
        return expressions.binary(given.it, op, a, b, given.site)

    return operate


OPERATIONS: dict[str, Operation] = {
    "add": _operator("+"),
    **dict.fromkeys(["sub", "subtract"], _operator("-")),
    **dict.fromkeys(["mul", "multiply"], _operator("*")),
    **dict.fromkeys(["div", "divide", "true_divide"], _operator("/")),
    "floor_divide": _operator("//"),
    **dict.fromkeys(["remainder", "fmod"], _operator("%")),
    **dict.fromkeys(["matmul", "mm", "bmm"], _operator("@")),
    **dict.fromkeys(["logical_and", "bitwise_and"], _operator("&")),
    **dict.fromkeys(["logical_or", "bitwise_or"], _operator("|")),
    **dict.fromkeys(["logical_xor", "bitwise_xor"], _operator("^")),
    **dict.fromkeys(["neg", "negative", "positive"], _negative),
    **dict.fromkeys("clamp clamp_min clamp_max clip nan_to_num".split(), _clamp),
    **dict.fromkeys(
        "abs maximum minimum repeat_interleave exp log log1p log2 sqrt rsqrt pow square sigmoid tanh relu gelu silu"
        " softmax log_softmax logsigmoid softplus sin cos lerp sign reciprocal expm1 erf hypot cosine_similarity"
        " normalize layer_norm addcmul addcdiv leaky_relu elu selu mish hardtanh logit arctan asinh interp".split(),
        function,
    ),
}
