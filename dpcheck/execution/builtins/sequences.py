"""Lists, tuples and sets: how they grow, shrink, are put together and ordered, and their methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dpcheck.execution import calls, divisions, expressions, listings, tensors
from dpcheck.execution.builtins import iteration
from dpcheck.execution.facts import INTEGER, NOTHING, Facts, Site, both, replace
from dpcheck.execution.trail import element_of, join, join_elements
from dpcheck.execution.values import NONE, Const, Content, Data, Sequence, Value

if TYPE_CHECKING:
    from dpcheck.execution.interpreter import Interpreter

LONGEST_EXACT = 64
"""A longer list is known by one element that stands for all."""


def append(it: Interpreter, sequence: Sequence, value: Value) -> None:
    items = sequence.items
    value = divisions.let_through(it, value)
    if items is not None and len(items) < LONGEST_EXACT and _changes_once(it, sequence):
        it.trail.set(sequence.state, "content", Content([*items, value]))
        return
    old = element_of(sequence.content)
    element = value if old is None else join_elements(old, value)
    length = sequence.length if items is None else None
    it.trail.set(sequence.state, "content", Content(None, element, length or loop_length(it)))


def _changes_once(it: Interpreter, sequence: Sequence) -> bool:
    """Is what is done to the list done once? Not in a loop, unless the list was made in the pass that is under way."""
    return not it.loops or sequence.state.get("loop") is it.loops[-1]


def loop_length(it: Interpreter) -> Facts | None:
    """How many elements a list has that one pass of the current loop makes longer by one."""
    if not it.loops:
        return None
    over = it.loops[-1].over
    if any(g.facts.place.is_local or g.facts.total.is_uneven for g in it.guards):
        return None
    return iteration.length_facts(over) if over is not None else None


def extend(it: Interpreter, sequence: Sequence, value: Value) -> None:
    divisions.pass_on(value, sequence)
    known, items = iteration.exact_items(value), sequence.items
    if known is not None and items is not None and len(items) + len(known) <= LONGEST_EXACT:
        if _changes_once(it, sequence):
            it.trail.set(sequence.state, "content", Content([*items, *known]))
            return
    it.trail.set(sequence.state, "content", concatenated(it, sequence, value).content)


def concatenated(it: Interpreter, a: Sequence, b: Value) -> Sequence:
    """`a + b`. That one of them differs in length between ranks is noted, also where its length is not known."""
    known = iteration.exact_items(b)
    if a.items is not None and known is not None and len(a.items) + len(known) <= LONGEST_EXACT:
        return Sequence([*a.items, *known], a.kind, site=a.site)
    first = element_of(a.content)
    second = element_of(b.content) if isinstance(b, Sequence) else calls.element(it, b)
    element = join(first, second) if first is not None and second is not None else first or second
    result = Sequence(None, a.kind, element, _added_lengths(it, a, b), a.site)
    divisions.pass_on(a, result)
    divisions.pass_on(b, result)
    lengths = [iteration.length_facts(part) for part in (a, b)]
    varying = next((length.total for length in lengths if length is not None and length.total.is_uneven), None)
    if varying is not None:
        result.state["uneven parts"] = varying
    return result


def _added_lengths(it: Interpreter, a: Value, b: Value) -> Facts | None:
    """The length of a concatenation. What is filled up to a length has that length (`ids + [0] * (n - len(ids))`)."""
    for part, filler in ((a, b), (b, a)):
        whole = _filled_up_to(part, filler)
        if whole is not None:
            return replace(expressions.facts_of(it, whole), type="int", ndim=0)
    x, y = iteration.length_facts(a), iteration.length_facts(b)
    if x is None or y is None:
        return x if x is not None and x.total.is_uneven else y if y is not None and y.total.is_uneven else None
    return replace(x if x.total.is_uneven else y, total=both(x.total, y.total), ndim=0)


def _filled_up_to(part: Value, filler: Value) -> Value | None:
    """The length that `filler` brings `part` to, if it repeats what is missing from that length."""
    amount = filler.state.get("times") if isinstance(filler, Sequence) else None
    if not isinstance(amount, Data) or type(amount.identity) is not tuple or amount.identity[0] != "rest":
        return None
    _, shorter, whole = amount.identity
    return whole if shorter == ("len", part) or _same_length(shorter, part) else None


def _same_length(identity: object, part: Value) -> bool:
    if type(identity) is not tuple or len(identity) != 2:
        return False
    other = identity[1]
    if not isinstance(other, Sequence) or not isinstance(part, Sequence):
        return False
    # A label list is often filled up by the length of the token list that it was made beside.
    return other.length is not None and other.length is part.length


def alike(sequence: Sequence, element: Value | None) -> Sequence:
    """A sequence of the same length with other elements."""
    result = Sequence(None, sequence.kind, element, sequence.length, sequence.site)
    for key in ("uneven parts", "times"):
        if key in sequence.state:
            result.state[key] = sequence.state[key]
    return result


def set_of(items: list[Value], site: Site | None) -> Sequence:
    """A set of these; how many it holds is known where they are constants."""
    if len(items) > 1 and not all(isinstance(item, Const) for item in items):
        return Sequence(None, "set", element_of(Content(items)), site=site)
    unique = {(type(i.value), i.value) if isinstance(i, Const) else id(i): i for i in reversed(items)}
    return Sequence(list(unique.values())[::-1], "set", site=site)


def operator(it: Interpreter, op: str, a: Value, b: Value, site: Site) -> Value | None:
    """`a op b`, None when that is no operation on sequences."""
    if op == "+" and isinstance(a, Sequence) and isinstance(b, (Sequence, Data)):
        return None if isinstance(b, Data) and b.facts.type == "tensor" else concatenated(it, a, b)
    if op == "+" and isinstance(b, Sequence) and isinstance(a, Data) and a.facts.type != "tensor":
        return concatenated(it, Sequence(None, "list", calls.element(it, a)), b)
    if op == "*":
        sequence, times = (a, b) if isinstance(a, Sequence) else (b, a)
        return _repeated(it, sequence, times, site) if isinstance(sequence, Sequence) else None
    if op in ("-", "&", "|", "^"):
        first = a if isinstance(a, Sequence) else b
        if isinstance(first, Sequence) and first.kind == "set":
            return Sequence(None, "set", element_of(first.content), site=site)
    return None


def _repeated(it: Interpreter, sequence: Sequence, times: Value, site: Site) -> Sequence:
    if isinstance(times, Const) and isinstance(times.value, int) and sequence.items is not None:
        if 0 <= times.value * len(sequence.items) <= 16:
            return Sequence(sequence.items * times.value, sequence.kind, site=site)
    length = replace(expressions.facts_of(it, times), type="int")
    result = Sequence(None, sequence.kind, element_of(sequence.content), length, site)
    result.state["times"] = times
    return result


def remove_at(it: Interpreter, sequence: Sequence, index: Value) -> Value | None:
    """Take an item out of a list; answers it if it is known which one that is."""
    items = sequence.items
    if items is None:
        return None
    at = index.value if isinstance(index, Const) and isinstance(index.value, int) else None
    if at is None or not -len(items) <= at < len(items) or not _changes_once(it, sequence):
        # In a loop it is another item in each pass.
        it.trail.set(sequence.state, "content", Content(None, element_of(sequence.content)))
        return None
    rest = list(items)
    removed = rest.pop(at)
    it.trail.set(sequence.state, "content", Content(rest))
    return removed


def ordered(items: list[Value], kwargs: dict[str, Value]) -> Sequence:
    """The items sorted, if their order can be told."""
    known = [item for item in items if isinstance(item, Const)]
    if not kwargs and len(known) == len(items):
        try:
            known.sort(key=lambda item: item.value)
            return Sequence(list[Value](known))
        except TypeError:
            pass
    return Sequence(list(items)) if len(items) < 2 else Sequence(None, element=element_of(Content(items)))


def _append(it: Interpreter, value: Sequence, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    if args:
        append(it, value, args[-1])
    return NONE


def _extend(it: Interpreter, value: Sequence, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    if args:
        extend(it, value, args[0])
    return NONE


def _insert(it: Interpreter, value: Sequence, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    if not args:
        return NONE
    append(it, value, args[-1])
    items = value.items
    where = args[0] if len(args) > 1 else Const(0)
    if items is not None and isinstance(where, Const) and isinstance(where.value, int):
        moved = list(items[:-1])
        moved.insert(max(min(where.value, len(moved)), -len(moved)), items[-1])
        it.trail.set(value.state, "content", Content(moved))
    return NONE


def _pop(it: Interpreter, value: Sequence, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    some = element_of(value.content) or Data(NOTHING)
    return remove_at(it, value, args[0] if args else Const(-1)) or some


def _pop_left(it: Interpreter, value: Sequence, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    return _pop(it, value, [Const(0)], {}, site)


def _remove(it: Interpreter, value: Sequence, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    answers = [expressions.equal(it, item, args[0]) for item in value.items or []] if args else []
    first = answers.index(True) if True in answers and None not in answers[: answers.index(True)] else None
    remove_at(it, value, Const(first))
    return NONE


def _clear(it: Interpreter, value: Sequence, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    it.trail.set(value.state, "content", Content([]))
    return NONE


def _reverse(it: Interpreter, value: Sequence, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    if value.items is not None:
        it.trail.set(value.state, "content", Content(value.items[::-1]))
    return NONE


def _sort(it: Interpreter, value: Sequence, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    content = ordered(value.items, kwargs).content if value.items is not None else value.content
    fixed = listings.in_order(Sequence(content.items, value.kind, content.element, content.length))
    it.trail.set(value.state, "content", fixed.content if isinstance(fixed, Sequence) else content)
    return NONE


def _copy(it: Interpreter, value: Sequence, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    return Sequence(value.items, value.kind, value.element, value.length, value.site)


def _position(it: Interpreter, value: Sequence, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    return Data(INTEGER, site)


METHODS: dict[str, Callable[..., Value]] = {
    "append": _append, "add": _append, "insert": _insert, "appendleft": _insert, "extend": _extend, "update": _extend,
    "pop": _pop, "popleft": _pop_left, "copy": _copy, "sort": _sort, "reverse": _reverse,
    "clear": _clear, "remove": _remove, "discard": _remove, "index": _position, "count": _position,
}  # fmt: skip


def _collect(kind: str) -> Callable[..., Value]:
    """`list`, `tuple` or `set`, of what it is called with."""

    def collect(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
        if not args:
            made = Sequence([], kind, site=site)
            made.state["loop"] = it.loops[-1] if it.loops else None
            return made
        value = args[0]
        known = iteration.exact_items(value)
        if known is not None:
            if kind == "set":
                return set_of(known, site)
            if isinstance(value, Sequence) and value.kind == "set" and len(known) > 1:
                made = Sequence(None, kind, listings.of_set(it, value, site), INTEGER, site)
                made.state["count"] = Const(len(known))
                return made
            return Sequence(list(known), kind, site=site)
        if isinstance(value, Data) and value.facts.type == "tensor":
            length = tensors.count_facts(value.facts, value.facts.lead)
            return Sequence(None, kind, tensors.row(value, site), length, site)
        known_length = iteration.length_facts(value)  # before what yields the elements may change it
        result = Sequence(None, kind, calls.element(it, value), known_length, site)
        if isinstance(value, Sequence):
            divisions.pass_on(value, result)
            for key in ("uneven parts", "count"):
                if key in value.state:
                    result.state[key] = value.state[key]
        return result

    return collect


FUNCTIONS: dict[str, Callable[..., Value]] = {
    "list": _collect("list"), "tuple": _collect("tuple"), "set": _collect("set"), "frozenset": _collect("set"),
}  # fmt: skip
