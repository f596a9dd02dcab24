"""Iteration: what an iterable yields, one by one where that is known, and the functions that make one of others."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dpcheck.execution import calls, divisions, expressions, listings, placement, tensors
from dpcheck.execution.builtins import sequences
from dpcheck.execution.completion import PathEndedError
from dpcheck.execution.facts import CONSTANT, INTEGER, NOTHING, Facts, Site, SourceKind, both, replace
from dpcheck.execution.trail import element_of, join
from dpcheck.execution.values import NONE, Const, Content, Data, Function, Generator, Instance, Mapping, Sequence, Value

if TYPE_CHECKING:
    from dpcheck.execution.interpreter import Interpreter

_LONGEST_UNROLLED = 24
_FEW = 4


def exact_items(value: Value, wanted: int | None = None) -> list[Value] | None:
    """The elements one by one, where they are known; `wanted`: how many an unpacking asks for."""
    if isinstance(value, Sequence):
        if value.items is not None:
            return value.items
        if value.kind == "shape" and wanted and value.element is not None:
            lead = value.state.get("lead")
            return [lead if isinstance(lead, Value) else value.element, *([value.element] * (wanted - 1))]
        return None
    if isinstance(value, Mapping) and value.other is None:
        return [Const(key) for key in value.entries]
    if isinstance(value, Const) and isinstance(value.value, str) and len(value.value) <= 16:
        return [Const(c) for c in value.value]
    if isinstance(value, Data) and value.facts.parts is not None:
        return [Data(part, value.site) for part in value.facts.parts]
    if isinstance(value, Instance):
        fields = value.attrs.get("%tuple")
        if isinstance(fields, Sequence) and fields.items is not None:
            return [value.attrs[f.value] for f in fields.items if isinstance(f, Const)]
    return None


def length_facts(value: Value) -> Facts | None:
    """What is known of the number of elements of an iterable."""
    if isinstance(value, Sequence):
        return INTEGER if value.items is not None else value.length
    if isinstance(value, Data) and value.facts.type == "tensor":
        return tensors.count_facts(value.facts, value.facts.lead)
    if isinstance(value, Generator):
        beneath = value.state.get("over")
        return length_facts(beneath) if isinstance(beneath, Value) else None
    return None


def over(generator: Generator, value: Value) -> Generator:
    """A generator that goes once through `value` and passes on each element in some form."""
    generator.state["over"] = value
    return generator


def _range(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    numbers = [a.value for a in args if isinstance(a, Const) and isinstance(a.value, int)]
    if args and len(numbers) == len(args):
        return _known_range(it, numbers, site)
    bounds = [expressions.facts_of(it, a) for a in args] or [NOTHING]
    stop = bounds[1] if len(bounds) > 1 else bounds[0]
    element = expressions.counter(it, site)
    divisions.ranged(it, args, site)
    by_rank = [b for b in bounds if b.has(SourceKind.RANK) or b.has(SourceKind.LOCAL_RANK)]
    if by_rank:
        sources = element.facts.sources.union(*(b.sources for b in by_rank))
        element = Data(replace(element.facts, place=placement.SHARD, sources=sources), site)
    length = stop if len(args) == 1 else replace(stop, total=both(stop.total, bounds[0].total))
    result = Sequence(None, "range", element, replace(length, type="int"), site)
    result.state["count"] = args[0] if len(args) == 1 else Data(NOTHING)
    if args and divisions.knows_world(args[-1 if len(args) < 3 else 1]):
        divisions.mark_cut(result)
    return result


def _known_range(it: Interpreter, bounds: list[int], site: Site) -> Sequence:
    try:
        count: Value = Const(len(range(*bounds)))
    except (OverflowError, TypeError, ValueError):
        count = Data(CONSTANT)
    start, step = (bounds[0], bounds[2]) if len(bounds) == 3 else (bounds[0] if len(bounds) == 2 else 0, 1)
    result = Sequence(None, "range", _counted(it, site, Const(start), step), INTEGER, site)
    result.state["count"] = count
    result.state["bounds"] = tuple(bounds)
    return result


def _counted(it: Interpreter, site: Site, start: Value, step: int = 1) -> Value:
    """The number that goes with a pass of a loop where the first one has `start`."""
    number: Value = expressions.counter(it, site)
    if step != 1:
        number = expressions.binary(it, "*", number, Const(step), site)
    is_zero = isinstance(start, Const) and start.value == 0
    return number if is_zero else expressions.binary(it, "+", number, start, site)


def few_numbers(value: Value) -> list[Value] | None:
    """The numbers of a short `range`."""
    bounds = value.state.get("bounds") if isinstance(value, Sequence) else None
    count = value.state["count"] if isinstance(value, Sequence) and bounds is not None else None
    few = isinstance(count, Const) and count.value <= _FEW
    return [Const(number) for number in range(*bounds)] if few and bounds is not None else None


def _enumerate(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    value = args[0] if args else NONE
    known = exact_items(value)
    start = args[1] if len(args) > 1 else kwargs.get("start", Const(0))
    if known is not None and len(known) <= _LONGEST_UNROLLED and isinstance(start, Const):
        if isinstance(start.value, int):
            return Sequence([Sequence([Const(start.value + i), item], "tuple") for i, item in enumerate(known)])
    index = _counted(it, site, start)

    def run(take: Callable[[Value], Value]) -> None:
        calls.iterate(it, value, lambda item: take(Sequence([index, item], "tuple")), site)

    return over(Generator(run), value)


def _zip(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    if not args:
        return Sequence([])
    known = [items for items in map(exact_items, args) if items is not None]
    if len(known) == len(args):
        rows = list(zip(*known, strict=False))
        if len(rows) <= sequences.LONGEST_EXACT:
            return Sequence([Sequence(list(row), "tuple") for row in rows])

    def run(take: Callable[[Value], Value]) -> None:
        others = [calls.element(it, a) for a in args[1:]]
        calls.iterate(it, args[0], lambda item: take(Sequence([item, *others], "tuple")), site)

    return over(Generator(run), args[0])


def zip_of_many(it: Interpreter, value: Value) -> Value:
    """`zip(*rows)` of rows of one shape: a tuple of columns, each as long as there are rows."""
    row = calls.element(it, value)
    length = length_facts(value)
    width = exact_items(row)
    if width is None:
        inner = calls.element(it, row)
        return Sequence(None, "tuple", Sequence(None, "tuple", inner, length))
    return Sequence([Sequence(None, "tuple", item, length) for item in width], "tuple")


def _map(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    if len(args) < 2:
        return Data(NOTHING)
    known = exact_items(args[1])
    if known is not None and len(args) == 2 and len(known) <= _LONGEST_UNROLLED:
        return Sequence(it.each(known, lambda item: calls.call(it, args[0], [item], {}, site)))
    rows = [calls.element(it, a) for a in args[1:]]
    return Sequence(None, "list", calls.call(it, args[0], rows, {}, site), length_facts(args[1]))


def _filter(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    if len(args) < 2:
        return Data(NOTHING)
    known = exact_items(args[1])
    element = element_of(Content(known)) if known is not None else None
    element = element if element is not None else calls.element(it, args[1])
    if isinstance(args[0], Function):
        test = calls.call(it, args[0], [element], {}, site)
        element = divisions.let_through(it, element, [expressions.facts_of_test(it, test)])
    return Sequence(None, "list", element)


def _sorted(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    if not args:
        return Sequence([])
    known = exact_items(args[0])
    if known is not None and len(known) <= sequences.LONGEST_EXACT:
        ordered = sequences.ordered(known, kwargs)
        return listings.in_order(Sequence(ordered.items, "list", ordered.element, INTEGER, site))
    element = listings.in_order(calls.element(it, args[0]))
    result = Sequence(None, "list", element, length_facts(args[0]), site)
    divisions.pass_on(args[0], result)
    return result


def _reversed(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    known = exact_items(args[0]) if args else []
    return Sequence(known[::-1], site=site) if known is not None else _sorted(it, args, {}, site)


def _iter(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    value = args[0] if args else NONE
    method = value.cls.lookup("__iter__") if isinstance(value, Instance) else None
    return calls.call(it, calls.bind(value, method), [], {}, site) if method is not None else value


def _next(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    value = args[0] if args else NONE
    method = value.cls.lookup("__next__") if isinstance(value, Instance) else None
    if method is not None:
        if len(args) < 2:
            return calls.call(it, calls.bind(value, method), [], {}, site)
        try:
            with it.alternative():
                return calls.call(it, calls.bind(value, method), [], {}, site)
        except PathEndedError:
            return args[1]
    found = calls.element(it, value)
    return join(found, args[1]) if len(args) > 1 else found


FUNCTIONS: dict[str, Callable[..., Value]] = {
    "range": _range, "enumerate": _enumerate, "zip": _zip, "map": _map, "filter": _filter, "sorted": _sorted,
    "reversed": _reversed, "iter": _iter, "next": _next,
}  # fmt: skip
