"""Arithmetic over facts: what is known of the result of an operation from what is known of its operands.

Operations of tensors, arrays and plain numbers share one table, by name: `x.sum()`, `torch.sum(x)` and `np.sum(x)` are
the same operation. An operation that is not in the table joins its operands' placements and is never even.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dpcheck.execution import expressions, intrinsics, placement
from dpcheck.execution import facts as facts_
from dpcheck.execution.facts import (
    CONSTANT,
    EVEN,
    EVEN_UNKNOWN,
    NOTHING,
    Coupling,
    Even,
    Evidence,
    Facts,
    Modulus,
    Site,
    SourceKind,
    Term,
    both,
    replace,
    same_count,
    scale,
    uneven,
)
from dpcheck.execution.placement import PARTIAL, REPLICATE, SHARD, Kind, Placement
from dpcheck.execution.trail import element_of
from dpcheck.execution.values import NONE, TRUE, Builtin, Choice, Const, Data, Mapping, Sequence, Value, options

if TYPE_CHECKING:
    from dpcheck.execution.interpreter import Interpreter

_MOST_TERMS = 24
_SCALAR: dict[str, Any] = {"lead": EVEN, "rest": EVEN, "ndim": 0, "parts": None, "mask": False, "permutation": False}
_NO_GRADIENT: dict[str, Any] = {"grad": False, "terms": (), "detached": None, "coupled": None}
_PLAIN: dict[str, Any] = {"parts": None, "reduced": None, "modulus": None, "permutation": False, "ignored": ()}


# ---------------------------------------------------------------- combining operands


def elementwise(operands: list[Facts]) -> Facts:
    """The facts of an elementwise operation that is not linear: it varies as its operands do, and scales unknowably."""
    if not operands:
        return CONSTANT
    place = _spread_place(operands)
    lead, rest = operands[0].lead, operands[0].rest
    for other in operands[1:]:
        lead, rest = _broadcast(lead, other.lead), _broadcast(rest, other.rest)
    grad = any(o.grad for o in operands)
    return Facts(
        place=place,
        type="tensor" if any(o.type == "tensor" for o in operands) else operands[0].type,
        ndim=max((o.ndim for o in operands if o.ndim is not None), default=None)
        if all(o.ndim is not None for o in operands)
        else None,
        lead=lead,
        rest=rest,
        total=EVEN if all(o.total.is_even and o.place.is_replicate for o in operands) else _any_uneven(operands),
        sources=frozenset().union(*(o.sources for o in operands)),
        grad=grad,
        terms=_nonlinear_terms(operands, place) if grad else (),
        clean=all(o.clean for o in operands),
        mask=False,
        gradient_of=next((o.gradient_of for o in operands if o.gradient_of), ()),
        gradient_ops=next((o.gradient_ops for o in operands if o.gradient_of), ()),
        detached=next((o.detached for o in operands if o.detached), None),
        coupled=next((o.coupled for o in operands if o.coupled), None),
        axis=next((o.axis for o in operands if o.place.spread and (o.grad or o.sources)), 0),
        opaque=any(o.opaque for o in operands),
    )


def _any_uneven(operands: list[Facts]) -> Even:
    for operand in operands:
        if operand.total.is_uneven:
            return operand.total
    return EVEN_UNKNOWN


def _broadcast(a: Even, b: Even) -> Even:
    """The evenness of a dimension in which two operands meet: one of them may be 1 there."""
    if a.is_uneven or b.is_uneven:
        return a if a.is_uneven else b
    return a if not a.is_even else b


def _spread_place(operands: list[Facts]) -> Placement:
    if any(o.place.is_unknown for o in operands):
        # Whatever the unknown operand is, what it meets row by row is this rank's own. (A loss term is not so lenient:
        # the unknown may be the factor that makes it right.)
        rows = any(o.place.is_local and o.place.spread and o.type == "tensor" for o in operands)
        return SHARD if rows else placement.UNKNOWN
    if all(o.place.is_replicate and o.place.world == 0 for o in operands):
        return Placement(Kind.REPLICATE, spread=any(o.place.spread for o in operands))
    locals_ = [o.place for o in operands if o.place.is_local]
    if locals_ and all(p.spread for p in locals_):
        return SHARD if all(o.place.world == 0 for o in operands) else placement.UNKNOWN
    return placement.UNKNOWN


def _nonlinear_terms(operands: list[Facts], place: Placement) -> tuple[Term, ...]:
    terms = [t for o in operands for t in o.terms]
    if all(t.place.is_replicate for t in terms) and place.is_replicate:
        return _unique(terms)
    known = not place.is_unknown and not any(o.place.is_unknown for o in operands)
    if all(_is_spread(t) or t.place.is_replicate for t in terms) and known:
        return (Term(SHARD, unsure=any(o.opaque for o in operands)),)
    return _unique([_with_place(t, placement.UNKNOWN) for t in terms])


def _is_spread(term: Term) -> bool:
    return term.place.is_local and term.place.spread


def _collapsed(terms: tuple[Term, ...]) -> tuple[Term, ...]:
    """Terms that meet element by element, before any reduction, are one term: so many losses, one for each example."""
    if len(terms) > 1 and any(_is_spread(t) for t in terms):
        if all((_is_spread(t) or t.place.is_replicate) and not t.scalings for t in terms):
            return (Term(SHARD, unsure=any(t.unsure for t in terms)),)
    return terms


def _with_place(term: Term, place: Placement) -> Term:
    return dataclasses.replace(term, place=place)


def _unique(terms: list[Term]) -> tuple[Term, ...]:
    return tuple(dict.fromkeys(terms))[:_MOST_TERMS]


def unknown_result(operands: list[Facts]) -> Facts:
    """What a function that was not read returns.

    From tensors with a row for each example it makes something of the same kind: were it a sum or a mean, no count of
    it is known, and nothing is said of a mean without evidence about its count.
    """
    if not operands:
        return NOTHING
    grad = any(o.grad for o in operands)
    batched = [o for o in operands if o.type == "tensor" or o.has(SourceKind.LOADER)]
    rows = [o for o in batched if o.place.is_local and o.place.spread]
    known = rows and all(o.place.is_replicate or (o.place.is_local and o.place.spread) for o in operands)
    place = SHARD if known else placement.UNKNOWN
    return Facts(
        place=place,
        type="tensor" if known else "",
        sources=frozenset().union(*(o.sources for o in operands)),
        grad=grad,
        terms=(Term(place, unsure=True),) if grad else (),
        opaque=grad,
    )


def of_unread_object(facts: Facts, inside_module: bool) -> Facts:
    """What an object that was not read makes when it is called: a layer or a loss, which keeps to this rank's examples.

    Inside a module it may hold weights, so that its result carries gradient.
    """
    if facts.grad or not inside_module or facts.place.is_unknown:
        return facts_.replace(facts, opaque=False)
    return facts_.replace(facts, grad=True, terms=(Term(placement.UNKNOWN),), opaque=False)


def test_facts(operands: list[Facts]) -> Facts:
    """A truth value computed from operands."""
    result = elementwise(operands)
    return replace(
        result,
        type="bool",
        grad=False,
        terms=(),
        modulus=next((o.modulus for o in operands if o.modulus), None),
        gradient_of=(),
        clean=False,
        detached=None,
        coupled=None,
    )


def filtered_length(it: Interpreter, test: Facts, site: Site) -> Facts:
    """The number of elements that pass a test of unknown outcome."""
    varies = test.place.is_local or test.has(SourceKind.DRAW) or test.total.is_uneven
    count = uneven(Evidence(site, "only the elements that pass this test are kept")) if varies else EVEN_UNKNOWN
    return replace(CONSTANT, place=PARTIAL if varies else placement.UNKNOWN, total=count, type="int", ndim=0)


# ---------------------------------------------------------------- operators


def binary(it: Interpreter, op: str, a: Value, b: Value, site: Site) -> Value:
    if op == "%" and isinstance(b, Const) and b.value == 1:
        return Const(0)
    x, y = expressions.facts_of(it, a), expressions.facts_of(it, b)
    result = Data(recorded(it, _met(binary_facts(it, op, x, y, a, b, site), x, y, op, site)), site)
    if op == "-" and isinstance(b, Data) and type(b.identity) is tuple and b.identity[0] == "len":
        result.identity = ("rest", b.identity, a)
    elif op == "+" and x.ndim in (0, None) and y.ndim in (0, None) and isinstance(a, Data):
        result.identity = ("sum", a.identity, b)
    return result


def _met(result: Facts, x: Facts, y: Facts, op: str, site: Site) -> Facts:
    """The result, with a note where the examples of this rank's batch meet: each with each, or summed in a product."""
    if op == "@":
        meets = {x.axis, y.axis} == {0, 1}
    else:
        meets = x.axis != y.axis
    if meets and result.grad and result.coupled is None and _is_batch(x) and _is_batch(y):
        return replace(result, coupled=Coupling(site, site), axis=0)
    if op in ("+", "-") and result.coupled is not None and x.ndim == 0 and y.ndim == 0:
        return replace(result, coupled=result.coupled._replace(loss=site))
    return result


def _is_batch(facts: Facts) -> bool:
    """Has the tensor an entry for each example of this rank?"""
    made = facts.grad or bool(facts.sources)  # not a mere range as long as this rank's batch is wide
    return made and not facts.opaque and facts.type == "tensor" and facts.place.is_local and facts.place.spread


def _turned(facts: Facts) -> int:
    """Which dimension counts the examples after the two dimensions of a matrix have changed places."""
    return 1 - facts.axis if facts.axis < 2 else 0


def recorded(it: Interpreter, facts: Facts) -> Facts:
    """The facts as autograd leaves them: under `no_grad` nothing carries gradient."""
    followed = facts.grad or facts.detached is not None
    if followed and it.machine.get("no grad") is True and not facts.parameter_of:
        return replace(facts, **_NO_GRADIENT)
    return facts


def binary_facts(it: Interpreter, op: str, x: Facts, y: Facts, a: Value, b: Value, site: Site) -> Facts:
    if op in ("+", "-"):
        return _sum_facts(x, y, a, b)
    if op == "*":
        return _product_facts(it, x, y, a, b, site, divides=False)
    if op in ("/", "//"):
        return _product_facts(it, x, y, a, b, site, divides=True)
    if op == "%":
        facts = elementwise([x, y])
        counts = x.has(SourceKind.COUNTER) or x.type in ("int", "number")
        return replace(facts, modulus=Modulus(y.place, b) if counts else x.modulus)
    if op == "@":
        return _matmul(x, y)
    if op in ("&", "|", "^"):
        facts = elementwise([x, y])
        mask = x.mask or y.mask
        return replace(facts, mask=mask, total=_any_uneven([x, y]) if mask and not facts.total.is_even else facts.total)
    return elementwise([x, y])


def _sum_facts(x: Facts, y: Facts, a: Value, b: Value) -> Facts:
    base = elementwise([x, y])
    literal = isinstance(a, Const) or isinstance(b, Const)
    if isinstance(b, Const):
        place = x.place
    elif isinstance(a, Const):
        place = y.place
    else:
        place = placement.add(x.place, y.place)
    if place.is_unknown and base.place.is_local:
        place = base.place
    main = y if isinstance(a, Const) else x
    terms: tuple[Term, ...] = ()
    detached = base.detached
    if base.grad:
        if x.ndim == 0 and y.ndim == 0:
            # Finished losses: each addend answers for its own collectives, also one that has lost all gradient.
            lost = [Term(placement.UNKNOWN, detached=o.detached) for o in (x, y) if o.detached and not o.grad]
            terms, detached = _unique([*facts_.cut(x), *facts_.cut(y), *lost]), None
        else:
            terms = _collapsed(_unique([*x.terms, *y.terms]))
    return replace(
        base,
        place=place,
        total=main.total if literal else both(x.total, y.total),
        terms=terms,
        detached=detached,
        reduced=x.reduced or y.reduced,
        summed=x.summed if x.reduced else y.summed,
        modulus=x.modulus or y.modulus,
        clean=x.clean and y.clean,
        ignored=(),
    )


def _product_facts(it: Interpreter, x: Facts, y: Facts, a: Value, b: Value, site: Site, divides: bool) -> Facts:
    base = elementwise([x, y])
    combine = placement.divide if divides else placement.multiply
    place = combine(x.place, y.place)
    if place.is_unknown and base.place.is_local:
        place = base.place
    terms: tuple[Term, ...] = ()
    if x.grad and y.grad:
        terms = _product_of_terms(x, y, divides)
    elif x.grad:
        terms = _unique([scale(term, y, b, _chosen(it, b, site), divides) for term in x.terms])
    elif y.grad:
        if divides:
            terms = _unique([_with_place(t, SHARD if t.place.spread else placement.UNKNOWN) for t in y.terms])
        else:
            terms = _unique([scale(term, x, a, _chosen(it, a, site), False) for term in y.terms])
    scalar = x.ndim == 0 and y.ndim == 0
    ops = base.gradient_ops
    if base.gradient_of:
        of, by = (x, y) if x.gradient_of else (y, x)
        ops = (*of.gradient_ops, (site, by, divides, b if x.gradient_of else a))
    return replace(
        base,
        place=place,
        total=both(x.total, y.total) if scalar or isinstance(b, Const) or isinstance(a, Const) else _mask_total(x, y),
        terms=terms,
        reduced=x.reduced or y.reduced,
        summed=x.summed if x.reduced else y.summed,
        gradient_ops=ops,
        clean=x.clean and y.clean,
    )


def _chosen(it: Interpreter, value: Value, site: Site) -> Site:
    """Where a factor comes in: a library's own division stands where the user chose the divisor."""
    if it.frame.unit.is_stub and isinstance(value, (Const, Data)) and value.site is not None:
        return value.site
    return site


def _mask_total(x: Facts, y: Facts) -> Even:
    if x.total.is_even and y.total.is_even and x.place.is_replicate and y.place.is_replicate:
        return EVEN
    return _any_uneven([x, y])


def _product_of_terms(x: Facts, y: Facts, divides: bool) -> tuple[Term, ...]:
    """Both factors carry gradient: the result is per example where both are, a penalty where both are replicated."""
    terms = [*x.terms, *y.terms]
    if x.place.is_replicate and y.place.is_replicate:
        return _unique(terms)
    if all(t.place.is_local and t.place.spread for t in terms):
        return (Term(SHARD, unsure=any(t.unsure for t in terms)),)
    parameters = [f for f in (x, y) if f.place.is_replicate]
    if len(parameters) == 1:
        # A learned scale or temperature times a local value: it varies as the local one does.
        return (y if parameters[0] is x else x).terms
    return _unique([_with_place(t, placement.UNKNOWN) for t in terms])


def _matmul(x: Facts, y: Facts) -> Facts:
    base = elementwise([x, y])
    place = base.place
    if x.place.is_local or y.place.is_local:
        place = SHARD
    elif x.place.is_replicate and y.place.is_replicate:
        # Rows gathered from all ranks stay rows on the left; elsewhere they are summed over.
        place = Placement(Kind.REPLICATE, spread=x.place.spread and x.axis == 0)
        terms = [
            _with_place(t, dataclasses.replace(t.place, spread=place.spread and t.place.spread))
            if t.place.is_replicate
            else t
            for t in base.terms
        ]
        base = replace(base, terms=_unique(terms))
    return replace(base, place=place, lead=x.lead, rest=both(x.rest, y.rest), total=EVEN_UNKNOWN, axis=0)


def unary(it: Interpreter, op: str, value: Value, site: Site) -> Value:
    facts = expressions.facts_of(it, value)
    if op == "~":
        return Data(replace(facts, mask=True), site)
    return Data(facts, site)


def compare(it: Interpreter, op: str, a: Value, b: Value, site: Site) -> Value:
    """A comparison whose outcome is not known: a truth value, or a mask where tensors are compared."""
    x, y = expressions.facts_of(it, a), expressions.facts_of(it, b)
    facts = test_facts([x, y])
    if x.ndim == 0 and y.ndim == 0:
        kind = "tensor" if "tensor" in (x.type, y.type) else "bool"
        result = Data(replace(facts, ndim=0, type=kind), site)
        result.identity = ("test", op, _identity(a), _identity(b))
        return result
    tensor = x.type == "tensor" or y.type == "tensor"
    count = _mask_count(op, x, y, a, b, site) if tensor else EVEN_UNKNOWN
    return Data(replace(facts, mask=tensor, type="tensor" if tensor else "bool", total=count), site)


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


def rank_comparison(it: Interpreter, op: str, a: Value, b: Value) -> bool | None:
    """Comparisons of the world size and the rank with constants, as a run on several ranks answers them."""
    if isinstance(a, Const) and isinstance(b, Data):
        flipped = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}.get(op, op)
        return rank_comparison(it, flipped, b, a)
    if not (isinstance(a, Data) and isinstance(b, Const)) or isinstance(b.value, bool):
        return None
    facts, limit = a.facts, b.value
    if isinstance(limit, str):
        try:
            limit = int(limit)
        except ValueError:
            return {"==": False, "!=": True}.get(op) if a.identity in ("world size", "rank", "local rank") else None
    if not isinstance(limit, (int, float)):
        return None
    if a.identity == "world size":
        if limit <= 1:
            return {"==": False, "!=": True, ">": True, "<": False, "<=": False}.get(op, True if op == ">=" else None)
        return None
    if a.identity in ("rank", "local rank"):
        if limit < 0:
            return {"==": False, "!=": True, ">": True, ">=": True, "<": False, "<=": False}.get(op)
        if limit == 0:
            return {">=": True, "<": False}.get(op)
    _ = facts
    return None


# ---------------------------------------------------------------- operations by name

Operation = Callable[["Interpreter", list[Value], dict[str, Value], Site, str], Value]


def call(it: Interpreter, name: str, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """`torch.name(*args)` or `args[0].name(…)`."""
    in_place_name = name.rstrip("_") if name.endswith("_") and not name.endswith("__") else None
    operation = OPERATIONS.get(in_place_name or name)
    if operation is None:
        operands = [_deep_facts(it, value) for value in (*args, *kwargs.values()) if not isinstance(value, Const)]
        # A size or an offset beside tensors says where, not what.
        operands = [o for o in operands if o.type == "tensor" or o.grad or not o.place.is_replicate] or operands
        if operands:
            merged = elementwise(operands)
            unread = {"lead": EVEN_UNKNOWN, "rest": EVEN_UNKNOWN, "total": EVEN_UNKNOWN, "ndim": None, "axis": 0}
            result: Value = Data(replace(merged, type="tensor", **unread), site)
        else:
            result = Data(
                replace(CONSTANT, type="tensor", ndim=None, lead=EVEN_UNKNOWN, rest=EVEN_UNKNOWN, total=EVEN_UNKNOWN),
                site,
            )
    else:
        result = operation(it, args, kwargs, site, in_place_name or name)
    if isinstance(result, Data) and result not in args:
        result = _noted(result, args, kwargs, in_place_name or name, site)
    if isinstance(result, Data) and result.facts.grad:
        kept = recorded(it, result.facts)
        if kept is not result.facts and result not in args:
            result = Data(kept, result.site)
    if in_place_name is not None and args and isinstance(args[0], Data):
        if in_place_name in ("index_copy", "scatter", "index_put"):
            it.record("trim", site, result)
        in_place(it, args[0], result, site)
        return args[0]
    out = kwargs.get("out")
    if isinstance(out, Data):
        in_place(it, out, result, site)
    return result


_LOSES_AXIS = frozenset(
    [
        "view",
        "reshape",
        "flatten",
        "ravel",
        "stack",
        "cat",
        "concat",
        "concatenate",
        "hstack",
        "vstack",
        "sum",
        "mean",
        "nansum",
        "nanmean",
        "max",
        "min",
        "amax",
        "amin",
        "argmax",
        "argmin",
        "logsumexp",
        "norm",
        "std",
        "var",
        "prod",
        "median",
        "gather",
        "expand",
        "repeat",
        "tile",
        "chunk",
        "split",
        "squeeze",
        "topk",
        "sort",
    ]
)


def _noted(result: Data, args: list[Value], kwargs: dict[str, Value], name: str, site: Site) -> Data:
    """The result of an operation, with a note where it mixes the examples of this rank's batch."""
    facts = result.facts
    if facts.axis and name in _LOSES_AXIS:
        result = Data(replace(facts, axis=0), result.site)
        result.identity = result
    operands = [arg.facts for arg in args if isinstance(arg, Data) and arg.facts.type == "tensor"]
    if not facts.grad or facts.coupled is not None or not operands or not all(_is_batch(o) for o in operands):
        return result
    first = operands[0]
    if name in ("std", "var", "std_mean", "var_mean"):
        dims = _dims(_argument(args, kwargs, 1, "dim") or kwargs.get("axis"))
        mixes = not dims or not _keeps_rows(first, dims)
    elif name == "einsum":
        mixes = _sums_over_examples(args[0], len(operands))
    elif name == "cdist":
        mixes = len(operands) == 2 and all(o.ndim == 2 for o in operands)
    else:
        mixes = name in ("cov", "corrcoef", "pdist")
    return Data(replace(result.facts, coupled=Coupling(site, site)), result.site) if mixes else result


def _sums_over_examples(equation: Value, count: int) -> bool:
    """Does an einsum pair the operands' first dimensions ("nd,md->nm"), or sum over them ("nc,nk->ck")?"""
    if not isinstance(equation, Const) or not isinstance(equation.value, str) or "." in equation.value:
        return False
    before, _, after = equation.value.replace(" ", "").partition("->")
    first = {operand[:1] for operand in before.split(",")}
    return before.count(",") + 1 == count > 1 and (len(first) > 1 or not first <= set(after))


def _deep_facts(it: Interpreter, value: Value) -> Facts:
    return expressions.facts_of(it, value)


def in_place(it: Interpreter, target: Data, result: Value, site: Site) -> None:
    """`target` takes the value `result`; a gradient that is written so has been scaled."""
    facts = expressions.facts_of(it, result)
    if target.facts.gradient_of:
        intrinsics.gradient_written(it, target.facts, facts, site)
        return
    if target.facts.parameter_of:
        drawn = facts.of_kind(SourceKind.DRAW)
        it.record(
            "initialise weights",
            site,
            target.facts.parameter_of,
            state=drawn[0].of if drawn else None,
            drawn=bool(drawn),
        )
        return
    it.trail.set(target.state, "facts", facts)


def _first(args: list[Value], kwargs: dict[str, Value], *names: str) -> Value | None:
    if args:
        return args[0]
    return next((kwargs[name] for name in names if name in kwargs), None)


def _argument(args: list[Value], kwargs: dict[str, Value], index: int, name: str) -> Value | None:
    if name in kwargs:
        return kwargs[name]
    return args[index] if index < len(args) else None


def _facts(it: Interpreter, args: list[Value], kwargs: dict[str, Value]) -> Facts:
    value = _first(args, kwargs, "input", "x", "a", "tensor", "self")
    return expressions.facts_of(it, value) if value is not None else NOTHING


def _keep(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site, name: str) -> Value:
    """The same numbers in another dtype, memory or device."""
    value = _first(args, kwargs, "input", "x")
    facts = _facts(it, args, kwargs)
    if isinstance(value, Const):
        return value
    result = Data(facts, value.site if isinstance(value, Data) and value.site is not None else site)
    if isinstance(value, Data) and facts.ndim == 0:
        result.identity = value.identity
    return result


def _keep_first(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site, name: str) -> Value:
    return _keep(it, args[:1], {}, site, name)


def _same(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site, name: str) -> Value:
    """The very same tensor (`.to(device)` of a loss keeps what it aliases)."""
    value = _first(args, kwargs)
    return value if value is not None else Data(NOTHING)


def _detach(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site, name: str) -> Value:
    facts = _facts(it, args, kwargs)
    value = _first(args, kwargs)
    result = Data(replace(facts, **_NO_GRADIENT), value.site if isinstance(value, Data) else site)
    if isinstance(value, Data):
        result.identity = value.identity
    return result


def _item(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site, name: str) -> Value:
    value = _first(args, kwargs)
    if isinstance(value, Const):
        return value
    facts = _facts(it, args, kwargs)
    kind = {"item": "number", "int": "int", "float": "float", "long": "tensor"}.get(name, "number")
    result = Data(replace(facts, **_NO_GRADIENT, type=kind, ndim=0), value.site if isinstance(value, Data) else site)
    if isinstance(value, Data):
        result.identity = value.identity
    return result


def _map(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site, name: str) -> Value:
    """An elementwise function of one or several tensors."""
    operands = [_deep_facts(it, v) for v in (*args, *kwargs.values()) if not isinstance(v, Const)]
    if not operands:
        return Data(replace(CONSTANT, type="tensor"), site)
    return Data(replace(elementwise(operands), type="tensor"), site)


def _moved(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site, name: str) -> Value:
    """The same elements in other places."""
    return Data(replace(elementwise([_facts(it, args, kwargs)]), type="tensor"), site)


def _keep_scale(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site, name: str) -> Value:
    """`clamp`, `max` with a constant and the like: a count stays a count."""
    others = [v for v in (*args[1:], *kwargs.values()) if isinstance(v, Data) and v.facts.type == "tensor"]
    facts = _facts(it, args, kwargs)
    if others and facts.ndim != 0:
        return _map(it, args, kwargs, site, name)
    value = _first(args, kwargs, "input")
    return Data(facts, value.site if isinstance(value, Data) else site)


def _abs(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site, name: str) -> Value:
    return Data(_facts(it, args, kwargs), site)


def _arith(op: str) -> Operation:
    def operate(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site, name: str) -> Value:
        a = _first(args, kwargs, "input")
        b = _argument(args, kwargs, 1, "other")
        if a is None or b is None:
            return Data(NOTHING, site)
        return expressions.binary(it, op, a, b, site)

    return operate


def _compare_op(op: str) -> Operation:
    def operate(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site, name: str) -> Value:
        a, b = _first(args, kwargs, "input"), _argument(args, kwargs, 1, "other")
        if a is None or b is None:
            return Data(NOTHING, site)
        return compare(it, op, a, b, site)

    return operate


# ---- reductions


def _dims(value: Value | None) -> list[int] | None:
    """The dimensions named by a `dim` argument; None when all or unknown ones are meant."""
    if isinstance(value, Const) and isinstance(value.value, int) and not isinstance(value.value, bool):
        return [value.value]
    if isinstance(value, Sequence) and value.items is not None:
        found = [v.value for v in value.items if isinstance(v, Const) and isinstance(v.value, int)]
        return found if len(found) == len(value.items) else None
    return None


def _covers_all(facts: Facts, dims: list[int]) -> bool:
    if facts.ndim is None:
        return False
    return len({d % facts.ndim if facts.ndim else 0 for d in dims}) >= facts.ndim


def _keeps_rows(facts: Facts, dims: list[int]) -> bool:
    """Does the first dimension, one entry per example, survive a reduction over `dims`?"""
    if 0 in dims:
        return False
    return not (facts.ndim is not None and -facts.ndim in dims)


def _reduction(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site, name: str) -> Value:
    """sum, mean and their like, over all dimensions or some."""
    value = _first(args, kwargs, "input", "x", "a")
    facts = _facts(it, args, kwargs)
    if isinstance(value, Sequence):
        element = element_of(value.content)
        facts = expressions.facts_of(it, element) if element is not None else CONSTANT
        facts = replace(facts, lead=both(facts.lead, length_even(value)))
    where = _argument(args, kwargs, 1, "dim") or kwargs.get("axis")
    averages = name in ("mean", "nanmean", "average")
    dims = _dims(where)
    if isinstance(where, Const) and where.value is None:
        where = None
    if where is not None and (dims is None or not _covers_all(facts, dims)):
        return Data(_partly_reduced(facts, dims, averages, site), site)
    return Data(reduced(it, facts, averages, site), site)


def reduced(it: Interpreter, facts: Facts, averages: bool, site: Site) -> Facts:
    """The facts of the sum or mean over all elements."""
    if facts.coupled is not None:
        facts = replace(facts, coupled=facts.coupled._replace(loss=site))
    place = placement.mean(facts.place) if averages else placement.total(facts.place)
    if facts.place.is_replicate and facts.place.spread:
        gathered = next((s.site for s in facts.sources if s.kind is SourceKind.RANK), None)
        base = replace(facts, place=place, total=EVEN, reduced=facts.reduced or gathered or site, **_SCALAR)
        return replace(base, terms=_reduce_terms(facts, averages, site))
    count = facts.elements if averages else facts.total
    result = replace(
        facts, place=place, total=count if not averages else EVEN_UNKNOWN, clean=False, ignored=(), **_SCALAR
    )
    if facts.gradient_of:
        result = replace(result, gradient_of=(), gradient_ops=())
    return replace(result, terms=_reduce_terms(facts, averages, site), parameter_of=())


def _reduce_terms(facts: Facts, averages: bool, site: Site) -> tuple[Term, ...]:
    if not facts.grad:
        return ()
    terms = []
    for term in facts_.cut(facts):
        if term.place.is_replicate and term.place.spread:
            term = dataclasses.replace(
                term, place=placement.mean(term.place) if averages else placement.total(term.place)
            )
        if term.place.is_local and term.place.spread:
            if averages:
                term = dataclasses.replace(
                    term, place=placement.mean(term.place), even=facts.elements, reduction=site, explicit=False
                )
            else:
                place = placement.total(term.place)
                term = dataclasses.replace(term, place=place)
                if place.size == 0 and term.reduction is None:
                    term = dataclasses.replace(term, reduction=site)
        terms.append(term)
    return _unique(terms)


def _partly_reduced(facts: Facts, dims: list[int] | None, averages: bool, site: Site) -> Facts:
    if dims is None:
        return replace(facts, lead=EVEN_UNKNOWN, rest=EVEN_UNKNOWN, total=EVEN_UNKNOWN, ndim=None, parts=None)
    ndim = facts.ndim - len(dims) if facts.ndim is not None else None
    if _keeps_rows(facts, dims):
        total = facts.total if not averages else EVEN_UNKNOWN
        return replace(
            facts, rest=EVEN if len(dims) >= 1 else facts.rest, total=total, ndim=ndim, parts=None, mask=False
        )
    place = placement.mean(facts.place) if averages else placement.total(facts.place)
    if facts.place.is_local and facts.place.spread and facts.ndim is None and dims != [0]:
        place = placement.mean(facts.place) if averages else placement.total(facts.place)
    return replace(
        facts,
        place=place,
        lead=facts.rest,
        rest=EVEN,
        ndim=ndim,
        parts=None,
        mask=False,
        terms=_reduce_terms(replace(facts, rest=EVEN), averages, site),
    )


def _extreme(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site, name: str) -> Value:
    """max, min: over everything, over a dimension (values and indices), or of two tensors."""
    second = _argument(args, kwargs, 1, "dim") or kwargs.get("axis")
    other = _argument(args, kwargs, 1, "other")
    if isinstance(other, Data) and other.facts.type == "tensor":
        return _map(it, args, kwargs, site, name)
    facts = _facts(it, args, kwargs)
    if second is not None:
        one = Data(replace(facts, rest=EVEN, total=EVEN_UNKNOWN, parts=None), site)
        index = Data(replace(facts, rest=EVEN, total=EVEN_UNKNOWN, **_NO_GRADIENT, parts=None, clean=True), site)
        if name in ("argmax", "argmin", "amax", "amin"):
            return index if name.startswith("arg") else one
        return Sequence([one, index], "tuple")
    return Data(replace(elementwise([facts]), **_SCALAR), site)


def _count(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site, name: str) -> Value:
    """numel, len, count_nonzero, size: how many there are."""
    facts = _facts(it, args, kwargs)
    if name == "count_nonzero":
        return Data(count_facts(facts, facts.total), site)
    return Data(count_facts(facts, facts.elements), site)


def count_facts(facts: Facts, even: Even) -> Facts:
    """A number of elements of something: this rank's own where the thing is local, or where it differs."""
    place = PARTIAL if facts.place.is_local else facts.place if not even.is_uneven else PARTIAL
    if place.is_replicate:
        place = Placement(Kind.REPLICATE, world=1 if facts.place.spread else 0)
        return Facts(
            place, type="int", total=EVEN, sources=facts.sources, reduced=facts.reduced, **{**_SCALAR, "mask": False}
        )
    return Facts(place, type="int", total=even, sources=facts.sources, **_SCALAR)


def _size(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site, name: str) -> Value:
    facts = _facts(it, args, kwargs)
    where = _argument(args, kwargs, 1, "dim")
    if where is None:
        return shape_of(facts, site)
    dims = _dims(where)
    return _dimension(facts, dims[0] if dims else None, site)


def _dimension(facts: Facts, dim: int | None, site: Site) -> Data:
    if dim == 0 or (facts.ndim is not None and dim == -facts.ndim):
        result = Data(count_facts(facts, facts.lead), site)
        return result
    if dim is None:
        return Data(replace(NOTHING, type="int", ndim=0), site)
    if facts.rest.is_even:
        return Data(replace(CONSTANT, type="int", ndim=0), site)
    if facts.rest.is_uneven:
        return Data(replace(CONSTANT, place=Placement(Kind.LOCAL), type="int", ndim=0, total=facts.rest), site)
    return Data(replace(CONSTANT, place=placement.UNKNOWN, total=EVEN_UNKNOWN, type="int", ndim=0), site)


def shape_of(facts: Facts, site: Site) -> Value:
    """The shape as a sequence: the number of rows, then dimensions of unknown number."""
    lead = _dimension(facts, 0, site)
    other = _dimension(facts, 1, site)
    if facts.ndim is not None and facts.ndim > 0:
        return Sequence([lead, *([other] * (facts.ndim - 1))], "shape")
    return Sequence(None, "shape", other, site=site) if facts.ndim == 0 else _open_shape(lead, other, site)


def _open_shape(lead: Data, other: Data, site: Site) -> Sequence:
    shape = Sequence(None, "shape", other, site=site)
    shape.state["lead"] = lead
    return shape


# ---- shapes


def _flatten(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site, name: str) -> Value:
    facts = _facts(it, args, kwargs)
    start = _argument(args, kwargs, 1, "start_dim")
    end = _argument(args, kwargs, 2, "end_dim")
    if isinstance(start, Const) and isinstance(start.value, int) and start.value >= 1:
        return Data(replace(facts, ndim=2 if end is None else None, parts=None), site)
    if end is None or (isinstance(end, Const) and end.value == -1):
        return Data(replace(facts, lead=facts.elements, rest=EVEN, ndim=1), site)
    return Data(replace(facts, lead=facts.elements, rest=EVEN, ndim=None), site)


def _view(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site, name: str) -> Value:
    """view, reshape: rows stay rows when the first new size is the old one; else everything is one long row."""
    facts = _facts(it, args, kwargs)
    sizes = list(args[1:])
    if len(sizes) == 1 and isinstance(sizes[0], Sequence):
        sizes = list(sizes[0].items or [])
    if kwargs.get("shape") is not None and isinstance(kwargs["shape"], Sequence):
        sizes = list(kwargs["shape"].items or [])
    ndim = len(sizes) if sizes else None
    if not sizes:
        return Data(replace(facts, parts=None, lead=EVEN_UNKNOWN, rest=EVEN_UNKNOWN, ndim=None), site)
    if len(sizes) == 1 and isinstance(sizes[0], Const) and sizes[0].value == -1:
        return Data(replace(facts, lead=facts.elements, rest=EVEN, ndim=1), site)
    first = sizes[0]
    if isinstance(first, Const) and first.value == -1:
        return Data(replace(facts, lead=facts.elements, rest=EVEN, ndim=ndim, parts=None), site)
    if isinstance(first, Data):
        return Data(replace(facts, ndim=ndim, parts=None), site)
    even = EVEN if facts.elements.is_even else facts.elements
    return Data(replace(facts, lead=even, rest=even if not even.is_even else EVEN, ndim=ndim, parts=None), site)


def _shuffle_dims(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site, name: str) -> Value:
    facts = _facts(it, args, kwargs)
    dims = [v.value for v in args[1:] if isinstance(v, Const)]
    if name in ("transpose", "swapaxes") and 0 not in dims and (facts.ndim is None or -facts.ndim not in dims):
        return Data(replace(facts, parts=None), site)
    if name == "permute" and dims and dims[0] == 0:
        return Data(replace(facts, parts=None), site)
    axis = _turned(facts) if name == "t" or facts.ndim == 2 else 0
    return Data(replace(facts, lead=facts.elements, rest=facts.elements, parts=None, axis=axis), site)


def _squeeze(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site, name: str) -> Value:
    facts = _facts(it, args, kwargs)
    where = _argument(args, kwargs, 1, "dim")
    if name == "unsqueeze":
        ndim = facts.ndim + 1 if facts.ndim is not None else None
        if isinstance(where, Const) and where.value == 0:
            return Data(
                replace(facts, lead=EVEN, rest=facts.elements, ndim=ndim, parts=None, axis=facts.axis + 1), site
            )
        return Data(replace(facts, ndim=ndim, parts=None), site)
    ndim = facts.ndim - 1 if facts.ndim is not None and where is not None and facts.ndim > 0 else None
    return Data(replace(facts, ndim=ndim if facts.ndim != 0 else 0, parts=None), site)


def _expand(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site, name: str) -> Value:
    facts = _facts(it, args, kwargs)
    other = _argument(args, kwargs, 1, "other")
    if name in ("expand_as", "view_as", "reshape_as") and other is not None:
        like = expressions.facts_of(it, other)
        place = (
            facts.place if not (facts.place.is_replicate and like.place.is_local and not like.lead.is_even) else SHARD
        )
        total = facts.total if facts.total.is_uneven or like.elements.is_even else like.elements
        return Data(
            replace(facts, place=place, lead=like.lead, rest=like.rest, ndim=like.ndim, total=total, parts=None), site
        )
    sizes = [v for v in args[1:] if not (isinstance(v, Const) and v.value == -1)]
    evens = [expressions.facts_of(it, v).total for v in sizes]
    rest = facts.rest
    for even in evens:
        rest = both(rest, even)
    return Data(
        replace(
            facts, lead=_size_even(it, args[1] if len(args) > 1 else None, facts.lead), rest=rest, ndim=None, parts=None
        ),
        site,
    )


def _size_even(it: Interpreter, size: Value | None, default: Even) -> Even:
    if isinstance(size, Data):
        return size.facts.total
    return default


def _stack(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site, name: str) -> Value:
    """stack, cat and `torch.tensor([...])` of known parts keep the facts of each part."""
    value = _first(args, kwargs, "tensors", "data", "arrays")
    if not isinstance(value, Sequence):
        facts = _facts(it, args, kwargs)
        if name == "stack":
            return Data(
                replace(
                    facts,
                    type="tensor",
                    rest=facts.elements,
                    lead=EVEN if facts.type != "tensor" else facts.lead,
                    ndim=None,
                ),
                site,
            )
        return Data(replace(facts, type="tensor"), site)
    where = _argument(args, kwargs, 1, "dim") or kwargs.get("axis")
    return Data(gathered_facts(it, value, name, where, site), site)


def length_even(value: Sequence) -> Even:
    if value.items is not None:
        return EVEN
    return value.length.total if value.length is not None else EVEN_UNKNOWN


def gathered_facts(it: Interpreter, value: Sequence, name: str, where: Value | None, site: Site) -> Facts:
    element = element_of(value.content)
    if element is None:
        return replace(CONSTANT, type="tensor")
    one = expressions.facts_of(it, element)
    count = length_even(value)
    items = value.items
    parts: tuple[Facts, ...] | None = None
    if items is not None and 1 < len(items) <= 8:
        facts = [expressions.facts_of(it, item) for item in items]
        if all(f.ndim == 0 for f in facts):
            parts = tuple(facts)
        grad = any(f.grad for f in facts)
        if grad and name in ("stack", "cat", "concat", "tensor"):
            one = replace(one, grad=True, terms=_unique([t for f in facts for t in f.terms]))
        places = [f.place for f in facts]
        if one.place.is_unknown and all(p.world == 0 and (p.is_replicate or (p.is_local and p.spread)) for p in places):
            one = replace(one, place=SHARD)
    axis = _dims(where)
    ndim = (one.ndim + 1 if name == "stack" else one.ndim) if one.ndim is not None else None
    if name in ("cat", "concat", "concatenate", "hstack", "vstack") and axis is not None and axis != [0]:
        lead, rest = one.lead, both(one.rest, count)
    elif name in ("cat", "concat", "concatenate", "hstack", "vstack"):
        lead, rest = both(one.lead, count), one.rest
        local = value.length is not None and value.length.place.is_local
        if local and one.lead.is_even:
            lead = count
    else:
        lead, rest = count, one.elements
    place = one.place
    if place.is_replicate and value.length is not None and value.length.place.world == 1:
        # One part from every rank, side by side.
        place = Placement(Kind.REPLICATE, world=place.world, spread=True)
        terms = tuple(
            _with_place(t, dataclasses.replace(t.place, spread=True)) if t.place.is_replicate else t for t in one.terms
        )
        one = replace(one, terms=terms)
    total = one.total
    if not total.is_uneven:
        total = both(total, count)
    return replace(one, type="tensor", lead=lead, rest=rest, total=total, parts=parts, ndim=ndim, place=place)


def _tensor(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site, name: str) -> Value:
    """torch.tensor, as_tensor, np.array … of nested lists or numbers."""
    value = _first(args, kwargs, "data", "object", "obj")
    if value is None or isinstance(value, Const):
        return Data(replace(CONSTANT, type="tensor", ndim=0), site)
    if isinstance(value, Data):
        result = Data(replace(value.facts, type="tensor", **_NO_GRADIENT), value.site or site)
        return result
    if isinstance(value, Sequence):
        return Data(nested_facts(it, value, site), site)
    return Data(replace(expressions.facts_of(it, value), type="tensor"), site)


def nested_facts(it: Interpreter, value: Sequence, site: Site) -> Facts:
    element = element_of(value.content)
    count = length_even(value)
    if element is None:
        return replace(CONSTANT, type="tensor", ndim=1, lead=count)
    inner = [v for v in options(element) if isinstance(v, Sequence)]
    if inner:
        below = nested_facts(it, inner[0], site)
        for other in inner[1:]:
            below = facts_.join(below, nested_facts(it, other, site))
        ndim = below.ndim + 1 if below.ndim is not None else None
        return replace(below, lead=count, rest=below.elements, ndim=ndim, total=both(below.total, count))
    one = expressions.facts_of(it, element)
    items = value.items
    parts = (
        tuple(expressions.facts_of(it, item) for item in items) if items is not None and 1 < len(items) <= 8 else None
    )
    marks = tuple(
        (option.value, Evidence(option.site or site, f"{option.value!r} is written here"))
        for option in options(element)
        if isinstance(option, Const) and isinstance(option.value, (int, float)) and not isinstance(option.value, bool)
    )
    mixed = len(list(options(element))) > 1
    place = one.place
    locals_ = [expressions.facts_of(it, o) for o in options(element)]
    if place.is_unknown and all(f.place.is_replicate or f.place.is_local for f in locals_):
        place = SHARD if any(f.place.is_local for f in locals_) else REPLICATE
    if place.is_local and not place.spread and items is None:
        place = SHARD
    elif place.is_local and not place.spread and items is not None and len(items) > 1:
        place = one.place
    total = one.total if one.total.is_uneven else both(one.total, count)
    if mixed and count.is_uneven:
        total = count
    if mixed and not total.is_uneven and value.state.get("uneven parts") is not None:
        total = value.state["uneven parts"]
    return replace(
        one,
        type="tensor",
        place=place,
        lead=count,
        rest=EVEN,
        ndim=1,
        total=total,
        ignored=(*one.ignored, *marks) if mixed else one.ignored,
        parts=parts,
        grad=False,
        terms=(),
        clean=all(f.clean for f in locals_),
    )


def _filled(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site, name: str) -> Value:
    """zeros, ones, full, empty, arange: the same content wherever the shape is the same."""
    sizes = list(args)
    if name in ("full", "full_like"):
        sizes = sizes[:1]
    if "size" in kwargs:
        sizes = [kwargs["size"]]
    if len(sizes) == 1 and isinstance(sizes[0], Sequence):
        nested = sizes[0]
        if nested.items is None:
            lead_value = nested.state.get("lead")
            rest = expressions.facts_of(it, nested.element).total if nested.element is not None else EVEN_UNKNOWN
            lead = lead_value.facts.total if isinstance(lead_value, Data) else rest
            return Data(_fill(lead, rest, None), site)
        sizes = list(nested.items)
    evens = [_size_even(it, size, EVEN) for size in sizes]
    locals_ = [v for v in sizes if isinstance(v, Data) and v.facts.place.is_unknown]
    lead = evens[0] if evens else EVEN
    rest = EVEN
    for even in evens[1:]:
        rest = both(rest, even)
    if locals_ and lead.is_even:
        lead = EVEN_UNKNOWN
    ndim = len(sizes) if name not in ("arange", "linspace", "range") else 1
    if name in ("arange", "linspace", "range"):
        size = sizes[-1] if sizes else None
        lead, rest = _size_even(it, size, EVEN), EVEN
    if not sizes:
        ndim = 0
    return Data(_fill(lead, rest, ndim), site)


def _fill(lead: Even, rest: Even, ndim: int | None) -> Facts:
    count = both(lead, rest)
    if count.is_even:
        return replace(CONSTANT, type="tensor", ndim=ndim)
    place = SHARD if count.is_uneven else placement.UNKNOWN
    return Facts(place, type="tensor", lead=lead, rest=rest, total=count, ndim=ndim, clean=True)


def _filled_like(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site, name: str) -> Value:
    facts = _facts(it, args, kwargs)
    made = _fill(facts.lead, facts.rest, facts.ndim)
    if made.place.is_unknown and facts.place.is_local:
        made = replace(made, place=SHARD)
    return Data(made, site)


def _new_filled(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site, name: str) -> Value:
    return _filled(it, args[1:], kwargs, site, name)


# ---- random draws


def _is_one(sizes: list[Value]) -> bool:
    """Is it the shape of a single number?"""
    numbers = [v for size in sizes for v in ((size.items or [NONE]) if isinstance(size, Sequence) else [size])]
    return bool(numbers) and all(isinstance(n, Const) and n.value == 1 for n in numbers)


def _draw(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site, name: str) -> Value:
    """A draw: as replicated as the random state it comes from, and different from element to element."""
    generator = kwargs.get("generator")
    state = intrinsics.random_state(it, generator, "torch")
    sizes = list(args)
    if name.endswith("_like") or name in ("bernoulli", "multinomial", "normal", "poisson"):
        facts = _facts(it, args, kwargs)
        lead, rest, ndim = facts.lead, facts.rest, facts.ndim
    elif name == "randperm":
        lead, rest, ndim = _size_even(it, args[0] if args else None, EVEN), EVEN, 1
    else:
        if name == "randint":
            sizes = [v for v in args if isinstance(v, Sequence)] or ([kwargs["size"]] if "size" in kwargs else [])
        shape = _filled(it, sizes, {k: v for k, v in kwargs.items() if k == "size"}, site, "zeros")
        filled = expressions.facts_of(it, shape)
        lead, rest, ndim = filled.lead, filled.rest, filled.ndim
    place = intrinsics.draw_place(state)
    if place.is_replicate and both(lead, rest).is_uneven:
        place = SHARD
    permutation = name == "randperm"
    source = intrinsics.draw(it, state, site, single=ndim == 0 or _is_one(sizes))
    total = EVEN if permutation else uneven(Evidence(site, "drawn at random here"))
    facts = Facts(
        place,
        type="tensor",
        lead=lead,
        rest=rest,
        ndim=ndim,
        total=total,
        sources=frozenset((source,)),
        clean=True,
        permutation=permutation,
        mask=name == "bernoulli",
    )
    return Data(facts, site)


# ---- selection


def _argsort(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site, name: str) -> Value:
    facts = _facts(it, args, kwargs)
    index = Data(
        replace(
            facts,
            permutation=True,
            grad=False,
            terms=(),
            total=EVEN if facts.elements.is_even else facts.elements,
            clean=True,
            parts=None,
        ),
        site,
    )
    if name == "argsort":
        return index
    values = Data(replace(facts, parts=None), site)
    return Sequence([values, index], "tuple")


def _gather(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site, name: str) -> Value:
    """`gather`: a permuted tensor has the sum it had before."""
    facts = _facts(it, args, kwargs)
    index = _argument(args, kwargs, 2, "index")
    by = expressions.facts_of(it, index) if index is not None else NOTHING
    merged = elementwise([facts, by])
    total = facts.total if by.permutation else EVEN_UNKNOWN if not facts.total.is_uneven else facts.total
    return Data(
        replace(
            merged,
            lead=by.lead,
            rest=by.rest,
            ndim=by.ndim,
            total=total,
            ignored=facts.ignored,
            grad=facts.grad,
            terms=facts.terms if facts.grad else (),
            type="tensor",
        ),
        site,
    )


def _masked_select(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site, name: str) -> Value:
    facts = _facts(it, args, kwargs)
    mask = _argument(args, kwargs, 1, "mask")
    return Data(selected(it, facts, expressions.facts_of(it, mask) if mask is not None else NOTHING, site), site)


def selected(it: Interpreter, facts: Facts, mask: Facts, site: Site) -> Facts:
    """The facts of `x[mask]`: as many rows as the mask has ones."""
    lead = mask.total
    place = facts.place
    if mask.place.is_local and place.is_replicate:
        place = SHARD
    if lead.is_uneven:
        lead = uneven(*lead.evidence, Evidence(site, "only the selected elements are kept"))
    return replace(
        facts,
        place=place,
        lead=lead,
        rest=EVEN,
        ndim=None,
        parts=None,
        ignored=(),
        mask=False,
        sources=facts.sources | mask.sources,
    )


def _nonzero(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site, name: str) -> Value:
    facts = _facts(it, args, kwargs)
    found = replace(facts, lead=facts.total, rest=EVEN, **_NO_GRADIENT, mask=False, parts=None, ndim=None)
    if "as_tuple" in kwargs or name == "where":
        return Sequence(None, "tuple", Data(replace(found, ndim=1), site))
    return Data(found, site)


def _where(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site, name: str) -> Value:
    if len(args) == 1:
        return _nonzero(it, args, kwargs, site, "where")
    order = list(args[:3])
    if order and isinstance(order[0], Data) and name == "where" and len(order) == 3:
        condition, a, b = order
    else:
        return _map(it, args, kwargs, site, name)
    return Data(_mixed(it, expressions.facts_of(it, condition), a, b, site), site)


def _masked_fill(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site, name: str) -> Value:
    value = _first(args, kwargs)
    mask = _argument(args, kwargs, 1, "mask")
    filler = _argument(args, kwargs, 2, "value")
    if value is None or mask is None or filler is None:
        return _map(it, args, kwargs, site, name)
    return Data(_mixed(it, expressions.facts_of(it, mask), filler, value, site), site)


def _mixed(it: Interpreter, condition: Facts, a: Value, b: Value, site: Site) -> Facts:
    """Elements of `a` where the condition holds, of `b` elsewhere. A constant among data marks those without target."""
    x, y = expressions.facts_of(it, a), expressions.facts_of(it, b)
    operands = [f for f in (x, y) if f.type == "tensor"] or [x, y]
    merged = elementwise([*operands, condition])
    ignored = x.ignored + y.ignored
    for value, mark in ((a, x), (b, y)):
        if isinstance(value, Const) and isinstance(value.value, (int, float)) and mark is not None:
            ignored = (*ignored, (value.value, Evidence(site, f"{value.value!r} is written here")))
    terms: tuple[Term, ...] = ()
    if merged.grad:
        terms = _collapsed(_unique([t for f in operands for t in f.terms]))
    total = condition.total if condition.total.is_uneven else merged.total
    return replace(merged, ignored=ignored, terms=terms, total=total, clean=x.clean and y.clean, type="tensor")


def _pad(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site, name: str) -> Value:
    """F.pad: a constant is written into the margin."""
    facts = _facts(it, args, kwargs)
    amount = _argument(args, kwargs, 1, "pad")
    filler = _argument(args, kwargs, 3, "value") or Const(0)
    mark: tuple[tuple[Any, Evidence], ...] = ()
    if isinstance(filler, Const):
        mark = ((filler.value, Evidence(site, f"padded with {filler.value!r} here")),)
    lead, rest = facts.lead, facts.rest
    for part in (amount.items or []) if isinstance(amount, Sequence) else []:
        if isinstance(part, Data) and type(part.identity) is tuple and part.identity[0] == "rest":
            whole = expressions.facts_of(it, part.identity[2])
            lead = whole.total if facts.ndim == 1 else lead
            rest = rest if facts.ndim == 1 else whole.total
    known = isinstance(amount, Sequence) and all(isinstance(p, Const) for p in amount.items or [Data(NOTHING)])
    ignored = facts.ignored if known else facts.ignored + mark
    return Data(replace(facts, lead=lead, rest=rest, ignored=ignored, parts=None), site)


def _pad_sequence(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site, name: str) -> Value:
    value = _first(args, kwargs, "sequences")
    filler = _argument(args, kwargs, 2, "padding_value") or Const(0)
    if not isinstance(value, Sequence):
        facts = expressions.facts_of(it, value) if value is not None else NOTHING
        count: Even = EVEN_UNKNOWN
    else:
        element = element_of(value.content)
        facts = expressions.facts_of(it, element) if element is not None else NOTHING
        count = length_even(value)
    mark: tuple[tuple[Any, Evidence], ...] = ()
    length = facts.lead
    if not length.is_even:
        if isinstance(filler, Const):
            mark = ((filler.value, Evidence(filler.site or site, f"padded with {filler.value!r} here")),)
        length = uneven(Evidence(site, "padded to the longest of this rank's batch"))
    total = facts.total if facts.total.is_uneven or length.is_even else length
    ndim = facts.ndim + 1 if facts.ndim is not None else None
    return Data(
        replace(
            facts,
            type="tensor",
            lead=count,
            rest=both(facts.rest, length),
            ignored=facts.ignored + mark,
            ndim=ndim,
            total=total,
            parts=None,
            mask=False,
        ),
        site,
    )


def _one_hot(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site, name: str) -> Value:
    facts = _facts(it, args, kwargs)
    return Data(replace(facts, total=facts.elements, clean=True, ignored=(), parts=None), site)


def _chunk(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site, name: str) -> Value:
    facts = _facts(it, args, kwargs)
    count = _argument(args, kwargs, 1, "chunks")
    if isinstance(count, Sequence) and count.items is not None:
        return Sequence([Data(replace(facts, parts=None), site) for _ in count.items], "tuple")
    if isinstance(count, Const) and isinstance(count.value, int) and 0 < count.value <= 8 and name == "chunk":
        return Sequence([Data(replace(facts, parts=None), site) for _ in range(count.value)], "tuple")
    return Sequence(None, "tuple", Data(replace(facts, parts=None), site), length=replace(CONSTANT, type="int", ndim=0))


def _unbind(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site, name: str) -> Value:
    facts = _facts(it, args, kwargs)
    value = _first(args, kwargs)
    if facts.parts is not None:
        return Sequence([Data(part, site) for part in facts.parts], "tuple")
    return Sequence(
        None,
        "tuple",
        row(it, value, site) if isinstance(value, Data) else Data(facts, site),
        count_facts(facts, facts.lead),
    )


def _tolist(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site, name: str) -> Value:
    value = _first(args, kwargs)
    facts = _facts(it, args, kwargs)
    if facts.ndim == 0:
        return Data(replace(facts, **_NO_GRADIENT, type="number"), site)
    if facts.parts is not None:
        return Sequence([Data(part, site) for part in facts.parts])
    return Sequence(
        None, "list", row(it, value, site) if isinstance(value, Data) else None, count_facts(facts, facts.lead)
    )


def _norm(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site, name: str) -> Value:
    """norm, std, var: a number per row, or one for all that scales in no simple way."""
    facts = _facts(it, args, kwargs)
    where = _argument(args, kwargs, 2 if name == "norm" else 1, "dim") or kwargs.get("axis")
    dims = _dims(where)
    base = elementwise([facts])
    if dims is not None and _keeps_rows(facts, dims) and not _covers_all(facts, dims):
        return Data(replace(base, rest=EVEN, ndim=None), site)
    base = replace(base, gradient_of=(), gradient_ops=())
    place = base.place if base.place.is_replicate else placement.UNKNOWN
    terms = base.terms if base.place.is_replicate else _unique([_with_place(t, placement.UNKNOWN) for t in base.terms])
    return Data(replace(base, place=place, terms=terms, **_SCALAR), site)


def _test(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site, name: str) -> Value:
    """isnan, isfinite, any, all …"""
    facts = _facts(it, args, kwargs)
    base = test_facts([facts])
    if name in ("any", "all", "equal", "allclose", "is_tensor"):
        return Data(replace(base, **{**_SCALAR, "type": "bool"}), site)
    return Data(replace(base, mask=True, type="tensor", total=_mask_count("", facts, CONSTANT, NONE, NONE, site)), site)


def _bool(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site, name: str) -> Value:
    facts = _facts(it, args, kwargs)
    return Data(replace(facts, mask=True, **_NO_GRADIENT), site)


def _requires_grad(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site, name: str) -> Value:
    value = _first(args, kwargs)
    return value if value is not None else Data(NOTHING)


def _no_value(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site, name: str) -> Value:
    return NONE


def _hook(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site, name: str) -> Value:
    """A function that backward calls with the gradient (or, afterwards, with the parameter)."""
    value, function = _first(args, kwargs), _argument(args, kwargs, 1, "hook")
    if isinstance(value, Data) and value.facts.parameter_of and function is not None:
        intrinsics.hook(it, value, function, after=name == "register_post_accumulate_grad_hook")
    return NONE


def _copy(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site, name: str) -> Value:
    other = _argument(args, kwargs, 1, "other")
    source = expressions.facts_of(it, other) if other is not None else NOTHING
    return Data(replace(source, type="tensor"), site)


def _fill_value(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site, name: str) -> Value:
    facts = _facts(it, args, kwargs)
    return Data(_fill(facts.lead, facts.rest, facts.ndim), site)


def _backward(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site, name: str) -> Value:
    value = _first(args, kwargs)
    if value is not None:
        intrinsics.record_backward(it, value, site)
    return NONE


OPERATIONS: dict[str, Operation] = {
    "add": _arith("+"), "sub": _arith("-"), "subtract": _arith("-"), "mul": _arith("*"), "multiply": _arith("*"),
    "div": _arith("/"), "divide": _arith("/"), "true_divide": _arith("/"), "floor_divide": _arith("//"),
    "remainder": _arith("%"), "fmod": _arith("%"), "matmul": _arith("@"), "mm": _arith("@"), "bmm": _arith("@"),
    "logical_and": _arith("&"), "logical_or": _arith("|"), "logical_not": _bool, "bitwise_and": _arith("&"),
    "eq": _compare_op("=="), "ne": _compare_op("!="), "lt": _compare_op("<"), "le": _compare_op("<="),
    "gt": _compare_op(">"), "ge": _compare_op(">="), "greater": _compare_op(">"), "less": _compare_op("<"),
    "greater_equal": _compare_op(">="), "less_equal": _compare_op("<="), "not_equal": _compare_op("!="),
    "isnan": _test, "isfinite": _test, "isinf": _test, "any": _test, "all": _test, "equal": _test, "allclose": _test,
    "sum": _reduction, "mean": _reduction, "nansum": _reduction, "nanmean": _reduction, "average": _reduction,
    "max": _extreme, "min": _extreme, "amax": _extreme, "amin": _extreme, "argmax": _extreme, "argmin": _extreme,
    "maximum": _map, "minimum": _map, "roll": _moved, "flip": _moved, "cumsum": _moved,
    "numel": _count, "nelement": _count, "count_nonzero": _count, "size": _size,
    "norm": _norm, "std": _norm, "var": _norm, "logsumexp": _norm, "prod": _norm, "median": _norm,
    "flatten": _flatten, "ravel": _flatten, "view": _view, "reshape": _view,
    "transpose": _shuffle_dims, "permute": _shuffle_dims, "swapaxes": _shuffle_dims, "movedim": _shuffle_dims,
    "t": _shuffle_dims, "squeeze": _squeeze, "unsqueeze": _squeeze, "expand": _expand, "expand_as": _expand,
    "view_as": _expand, "reshape_as": _expand, "repeat": _expand, "tile": _expand, "repeat_interleave": _map,
    "broadcast_to": _expand, "stack": _stack, "cat": _stack, "concat": _stack, "concatenate": _stack,
    "hstack": _stack, "vstack": _stack, "tensor": _tensor, "as_tensor": _tensor, "array": _tensor, "asarray": _tensor,
    "from_numpy": _tensor, "FloatTensor": _tensor, "LongTensor": _tensor, "IntTensor": _tensor, "Tensor": _tensor,
    "BoolTensor": _tensor, "scalar_tensor": _tensor,
    "zeros": _filled, "ones": _filled, "empty": _filled, "full": _filled, "arange": _filled, "linspace": _filled,
    "eye": _filled, "range": _filled, "zeros_like": _filled_like, "ones_like": _filled_like, "empty_like": _filled_like,
    "full_like": _filled_like, "new_zeros": _new_filled, "new_ones": _new_filled, "new_empty": _new_filled,
    "new_full": _new_filled, "new_tensor": lambda it, a, k, s, n: _tensor(it, a[1:], k, s, n), "zero": _fill_value,
    "fill": _fill_value, "new": _new_filled,
    "rand": _draw, "randn": _draw, "randint": _draw, "randperm": _draw, "rand_like": _draw, "randn_like": _draw,
    "randint_like": _draw, "bernoulli": _draw, "multinomial": _draw, "normal": _draw, "uniform": _draw,
    "poisson": _draw, "dropout": _keep,
    "argsort": _argsort, "sort": _argsort, "topk": _argsort, "gather": _gather, "take_along_dim": _gather,
    "masked_select": _masked_select, "nonzero": _nonzero, "where": _where, "masked_fill": _masked_fill,
    "pad": _pad, "pad_sequence": _pad_sequence, "one_hot": _one_hot,
    "chunk": _chunk, "split": _chunk, "tensor_split": _chunk, "unbind": _unbind, "tolist": _tolist, "list": _tolist,
    "item": _item, "detach": _detach, "clone": _keep, "contiguous": _keep, "float": _keep, "double": _keep,
    "half": _keep, "bfloat16": _keep, "long": _keep, "int": _keep, "short": _keep, "byte": _keep, "char": _keep,
    "type": _keep, "type_as": _keep_first, "to": _keep_first, "cpu": _keep, "cuda": _same, "numpy": _detach,
    "pin_memory": _same,
    "astype": _keep, "neg": _abs, "negative": _abs, "positive": _abs, "abs": _map, "bool": _bool,
    "clamp": _keep_scale, "clamp_min": _keep_scale, "clamp_max": _keep_scale, "clip": _keep_scale,
    "nan_to_num": _keep_scale, "round": _keep, "floor": _keep, "ceil": _keep, "copy": _copy, "data": _detach,
    "requires_grad": _requires_grad, "retain_grad": _no_value, "register_hook": _hook,
    "register_post_accumulate_grad_hook": _hook, "backward": _backward,
    "share_memory": _same, "record_stream": _no_value,
}  # fmt: skip
for _name in [
    "exp",
    "log",
    "log1p",
    "log2",
    "sqrt",
    "rsqrt",
    "pow",
    "square",
    "sigmoid",
    "tanh",
    "relu",
    "gelu",
    "silu",
    "softmax",
    "log_softmax",
    "logsigmoid",
    "softplus",
    "sin",
    "cos",
    "lerp",
    "cumsum",
    "roll",
    "flip",
    "sign",
    "reciprocal",
    "expm1",
    "erf",
    "hypot",
    "cosine_similarity",
    "normalize",
    "layer_norm",
    "where_",
    "addcmul",
    "addcdiv",
    "leaky_relu",
    "elu",
    "selu",
    "mish",
    "hardtanh",
    "logit",
    "arctan",
    "asinh",
    "interp",
]:
    OPERATIONS.setdefault(_name, _map)


# ---------------------------------------------------------------- attributes and items of tensors

_KEEPING_ATTRIBUTES = {"data", "T", "mT", "H", "real"}
_PLAIN_ATTRIBUTES = {"dtype", "device", "is_cuda", "layout", "name", "requires_grad", "is_leaf", "type"}


def attribute(it: Interpreter, value: Data, name: str, site: Site) -> Value:
    facts = value.facts
    if facts.parameter_of and name == "grad":
        return intrinsics.gradient(it, value, site)
    if facts.parameter_of and name == "requires_grad":
        return TRUE  # a frozen one takes no part in what is asked of gradients
    if name == "shape":
        return shape_of(facts, site)
    if name == "ndim":
        return Const(facts.ndim) if facts.ndim is not None else Data(replace(CONSTANT, type="int", ndim=0))
    if name == "data":
        if facts.parameter_of or facts.gradient_of:
            return value
        return _detach(it, [value], {}, site, "data")
    if name in _KEEPING_ATTRIBUTES:
        axis = _turned(facts) if name == "T" or facts.ndim == 2 else facts.axis
        turned = replace(facts, lead=facts.elements, rest=facts.elements, axis=axis)
        return Data(turned, site) if name != "real" else value
    if name in _PLAIN_ATTRIBUTES and facts.type == "tensor":
        return Data(replace(CONSTANT, type=""), site)
    if facts.type in ("tensor", "number", "int", "float", "bool", "") and (
        name in OPERATIONS or name.rstrip("_") in OPERATIONS
    ):
        return Builtin(name, lambda it, args, kwargs, where: call(it, name, [value, *args], kwargs, where))
    if facts.type == "tensor":
        return Builtin(name, lambda it, args, kwargs, where: call(it, name, [value, *args], kwargs, where))
    result = Data(replace(facts, grad=facts.grad, parts=None), site)
    if facts.type != "str" and not facts.place.is_replicate:
        # A part of something that was not read: as unknown as the whole.
        result = Data(unknown_result([facts]), site)
    cached = value.state.get(f"attribute {name}")
    if isinstance(cached, Value):
        return cached
    if "harmless" in value.state:
        result.state["harmless"] = True
    value.state[f"attribute {name}"] = result
    return result


def set_attribute(it: Interpreter, owner: Data, name: str, value: Value, site: Site) -> None:
    if name == "grad" and owner.facts.parameter_of:
        facts = expressions.facts_of(it, value)
        intrinsics.gradient_assigned(it, owner.facts, facts, site)
        return
    if name == "data":
        facts = expressions.facts_of(it, value)
        if not owner.facts.parameter_of:
            it.trail.set(owner.state, "facts", replace(facts, grad=owner.facts.grad))
        return
    it.trail.set(owner.state, f"attribute {name}", value)


def row(it: Interpreter, value: Data, site: Site) -> Value:
    """One element of an iteration over a tensor, or of an unknown iterable."""
    facts = value.facts
    if facts.type == "tensor":
        ndim = facts.ndim - 1 if facts.ndim else facts.ndim
        return Data(_row_facts(facts, ndim), site)
    if facts.parts is not None and facts.parts:
        return Data(facts.parts[0], site)
    return Data(unknown_result([facts]) if facts.place.is_unknown else replace(facts, parts=None), site)


def _row_facts(facts: Facts, ndim: int | None) -> Facts:
    lead = facts.rest
    return replace(facts, lead=lead, rest=EVEN, ndim=ndim, parts=None, permutation=False)


def get_item(it: Interpreter, value: Data, index: Value, site: Site) -> Value:
    """`x[index]` of a tensor, array or foreign object."""
    facts = value.facts
    if facts.parts is not None and isinstance(index, Const) and isinstance(index.value, int):
        if -len(facts.parts) <= index.value < len(facts.parts):
            return Data(facts.parts[index.value], site)
    if facts.type != "tensor":
        operands = [facts] if isinstance(index, (Const, Sequence)) else [facts, expressions.facts_of(it, index)]
        if facts.place.is_unknown:
            return Data(unknown_result(operands), site)
        if isinstance(index, Sequence) and index.kind == "slice":
            return Data(replace(_sliced(it, facts, index, site), parts=None), site)
        merged = elementwise(operands)
        return Data(replace(merged, type="", lead=facts.rest, rest=EVEN_UNKNOWN, parts=None), site)
    parts = (
        index.items if isinstance(index, Sequence) and index.kind == "tuple" and index.items is not None else [index]
    )
    result = facts
    first = True
    ndim = facts.ndim
    for part in parts:
        if isinstance(part, Sequence) and part.kind == "slice":
            if first:
                result = _sliced(it, result, part, site)
            first = False
            continue
        if isinstance(part, Const) and (part.value is None or part.value is Ellipsis):
            if part.value is None and first:
                result = replace(result, lead=EVEN, rest=result.elements, axis=result.axis + 1)
            ndim = ndim + 1 if ndim is not None and part.value is None else ndim
            continue
        if isinstance(part, Const):
            if first:
                result = replace(_row_facts(result, None), place=result.place)
                ndim = ndim - 1 if ndim else ndim
            else:
                ndim = ndim - 1 if ndim else ndim
            continue
        by = expressions.facts_of(it, part)
        if by.mask:
            result = selected(it, result, by, site)
            ndim = None
            first = False
            continue
        if isinstance(part, Sequence):
            by = nested_facts(it, part, site)
        if first:
            result = _indexed(it, result, by)
        ndim = (ndim - 1 + by.ndim) if ndim is not None and by.ndim is not None else None
        if by.ndim != 0:
            first = False
    if len(parts) == 1 and isinstance(parts[0], Const) and parts[0].value is Ellipsis:
        return value
    return Data(replace(result, ndim=ndim, parts=None, permutation=False), site)


def _indexed(it: Interpreter, facts: Facts, by: Facts) -> Facts:
    """Rows picked by an index: local where the index is."""
    place = facts.place
    if place.is_replicate and (by.place.is_local or by.place.is_unknown):
        place = dataclasses.replace(SHARD, world=place.world) if by.place.is_local else placement.UNKNOWN
    sources = facts.sources | by.sources
    if by.ndim == 0:
        return replace(_row_facts(facts, None), place=place, sources=sources)
    return replace(facts, place=place, lead=by.lead, rest=facts.rest, sources=sources, parts=None)


def _sliced(it: Interpreter, facts: Facts, index: Sequence, site: Site) -> Facts:
    """`x[lower:upper:step]`. A slice by rank is this rank's own."""
    bounds = [expressions.facts_of(it, part) for part in index.items or [] if not isinstance(part, Const)]
    sources = facts.sources.union(*(b.sources for b in bounds)) if bounds else facts.sources
    place = facts.place
    if facts.reduced is not None and place.is_replicate and _ends(index):
        it.record("trim", site, Data(facts, site))
    lead = facts.lead
    if any(b.place.is_local for b in bounds) or any(b.has(SourceKind.RANK) for b in bounds):
        place = SHARD if not place.is_unknown else place
    width = window(index)
    if width is not None:
        lead = expressions.facts_of(it, width).total
    elif len(bounds) > 1:
        lead = EVEN_UNKNOWN
    else:
        for bound in bounds:
            if bound.total.is_uneven:
                lead = bound.total
            elif not bound.total.is_even and lead.is_even and not bound.has(SourceKind.COUNTER):
                lead = EVEN_UNKNOWN
    return replace(facts, place=place, lead=lead, sources=sources, parts=None)


def _ends(index: Sequence) -> bool:
    """`x[:end]`"""
    lower, upper = (index.items or [NONE, NONE])[:2]
    return (
        isinstance(lower, Const) and lower.value in (None, 0) and not (isinstance(upper, Const) and upper.value is None)
    )


def own_slot(it: Interpreter, old: Value | None, index: Value, value: Value) -> Value | None:
    """`parts[rank] = own` where `parts` came out of a gather: the same values on all ranks, this rank's own gradient.

    None where it is something else.
    """
    if not isinstance(old, Data) or not isinstance(value, Data):
        return None
    by = expressions.facts_of(it, index)
    gathered, own = old.facts, value.facts
    if not by.has(SourceKind.RANK) or gathered.reduced is None or not gathered.place.is_replicate:
        return None
    if not own.grad or gathered.grad or own.place.is_unknown:
        return old
    place = gathered.place
    terms = tuple(
        dataclasses.replace(t, place=dataclasses.replace(place, world=t.place.world - 1), detached=gathered.detached)
        if not t.place.is_unknown
        else t
        for t in own.terms
    )
    sources = gathered.sources | own.sources
    return Data(replace(gathered, grad=True, terms=terms, sources=sources), value.site)


def window(index: Sequence) -> Value | None:
    """The width of a slice `x[i : i + width]`."""
    lower, upper = (index.items or [NONE, NONE])[:2]
    if isinstance(lower, Data) and isinstance(upper, Data) and type(upper.identity) is tuple:
        if upper.identity[0] == "sum" and upper.identity[1] == lower.identity:
            width: Value = upper.identity[2]
            return width
    return None


def set_item(it: Interpreter, target: Data, index: Value, value: Value, site: Site) -> None:
    """`x[index] = value`: a constant written into data marks elements without a target."""
    facts = target.facts
    if facts.gradient_of:
        return
    own = own_slot(it, target, index, value)
    if own is not None:
        it.trail.set(target.state, "facts", expressions.facts_of(it, own))
        return
    new = expressions.facts_of(it, value)
    parts = (
        index.items if isinstance(index, Sequence) and index.kind == "tuple" and index.items is not None else [index]
    )
    indices = [
        expressions.facts_of(it, p)
        for p in parts
        if not isinstance(p, Const) and not (isinstance(p, Sequence) and p.kind == "slice")
    ]
    for part in parts:
        if isinstance(part, Sequence) and part.kind == "slice":
            indices += [expressions.facts_of(it, b) for b in part.items or [] if not isinstance(b, Const)]
    if any(i.reduced is not None and i.place.is_replicate and i.type == "tensor" for i in indices):
        # Each example goes to its own place, also one that came twice.
        it.record("trim", site, Data(elementwise([*indices, new]), site))
    merged = elementwise([facts, *indices] if new.type != "tensor" else [facts, new, *indices])
    ignored = facts.ignored + new.ignored
    if isinstance(value, Const) and isinstance(value.value, (int, float)) and not isinstance(value.value, bool):
        ignored = (*ignored, (value.value, Evidence(site, f"{value.value!r} is written here")))
    varying = [i for i in indices if i.total.is_uneven or i.lead.is_uneven]
    total = facts.total
    if varying:
        total = varying[0].total if varying[0].total.is_uneven else varying[0].lead
    elif any(i.place.is_local or i.place.is_unknown for i in indices) and total.is_even:
        total = EVEN_UNKNOWN
    elif new.total.is_uneven:
        total = new.total
    place = merged.place if not merged.place.is_unknown or facts.place.is_unknown else facts.place
    if facts.place.is_replicate and any(f.place.is_local for f in (new, *indices)):
        place = SHARD
    grad = facts.grad or new.grad
    terms = _unique([*facts.terms, *new.terms]) if grad else ()
    it.trail.set(
        target.state,
        "facts",
        replace(
            facts,
            place=place,
            total=total,
            ignored=ignored,
            sources=merged.sources,
            grad=grad,
            terms=terms,
            parts=None,
            clean=facts.clean and new.clean,
            permutation=False,
        ),
    )


_ = (Mapping, Choice, same_count, _PLAIN)
