"""Undoing and joining: how a branch that may or may not be taken leaves its mark on the program's state.

Every write to a variable, attribute or container goes through `Trail.set`, which notes the old value. A branch is
executed, its writes are collected and undone, the other branch is executed from the same state, and both sets of writes
are joined location by location. The cost is that of the writes, not of the state.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, cast

from dpcheck.execution import facts as facts_
from dpcheck.execution import placement
from dpcheck.execution.facts import CONSTANT, Difference, Facts
from dpcheck.execution.values import Choice, Const, Content, Data, Instance, Mapping, Sequence, Store, Value, options

_MISSING = object()
_MOST_OPTIONS = 5


class Mark(NamedTuple):
    length: int
    serial: int


class Write(NamedTuple):
    store: Store
    key: str
    old: Any
    new: Any


Writes = dict[tuple[int, str], Write]


class Joinable:
    """A state of its own kind that says what two of it make."""

    __slots__ = ()

    def joined(self, other: Any) -> Any:
        raise NotImplementedError


class Trail:
    def __init__(self) -> None:
        self._log: list[tuple[Store, str, Any]] = []

    def set(self, store: Store, key: str, value: Any) -> None:
        self._log.append((store, key, store.get(key, _MISSING)))
        store[key] = value

    def remove(self, store: Store, key: str) -> None:
        if key in store:
            self._log.append((store, key, store[key]))
            del store[key]

    def mark(self) -> Mark:
        return Mark(len(self._log), next(Store.born))

    def writes(self, mark: Mark) -> Writes:
        """What was written since the mark to values that are older than it: the value before and the one now."""
        found: Writes = {}
        for store, key, old in self._log[mark.length :]:
            where = (id(store), key)
            if store.serial < mark.serial and where not in found:
                found[where] = Write(store, key, old, None)
        return {k: w._replace(new=w.store.get(w.key, _MISSING)) for k, w in found.items()}

    def undo(self, mark: Mark) -> Writes:
        """Take back what was written since the mark, except to values born after it; answer what it was."""
        writes = self.writes(mark)
        for store, key, old in reversed(self._log[mark.length :]):
            if store.serial < mark.serial:
                if old is _MISSING:
                    store.pop(key, None)
                else:
                    store[key] = old
        del self._log[mark.length :]
        return writes

    def merge(
        self,
        arms: list[Writes],
        unread: bool = False,
        test: Value | None = None,
        differs: tuple[Difference, ...] = (),
    ) -> None:
        """Make the state that follows when one of the arms was taken, nobody knows which.

        `unread`: code that was not read decides it, perhaps always alike. `test`: it decides between two arms, the
        first of which is taken where it holds. `differs`: why ranks take different ones.
        """
        places = {where: write for arm in arms for where, write in arm.items()}
        for where, write in places.items():
            values = [arm[where].new if where in arm else write.store.get(write.key, _MISSING) for arm in arms]
            known = [value for value in values if value is not _MISSING]
            if not known:
                self.remove(write.store, write.key)
                continue
            joined = known[0]
            for value in known[1:]:
                joined = join_any(joined, value)
            if test is not None and len(known) == len(arms) == 2:
                joined = decided(joined, test, *known)
            if differs:
                joined = _received(known) or (joined if same_states(known) else differing(joined, differs))
            self.set(write.store, write.key, _doubted(joined, known) if unread else joined)

    def widen(self, mark: Mark) -> bool:
        """Make the state that holds at the head of a loop whose body ran once since the mark; did it change?"""
        changed = False
        for write in self.writes(mark).values():
            if write.old is _MISSING or write.new is _MISSING or write.old is write.new:
                continue
            joined = join_any(write.old, write.new, widen=True)
            self.set(write.store, write.key, joined)
            changed = True
        return changed


def same_states(values: list[Any]) -> bool:
    """Are these one and the same state, as far as anyone knows?"""
    first = values[0]
    return all(value is first or _equal(first, value) for value in values) or any(map(_is_unread, values))


def _received(values: list[Any]) -> Data | None:
    """What some ranks got from the one that has it already: then all have it."""
    return next((value for value in values if isinstance(value, Data) and "received" in value.state), None)


def _is_unread(value: Any) -> bool:
    """Is nothing known of a value, so that it may be what another is?"""
    return isinstance(value, Data) and value.facts.place.is_unknown and not value.facts.type


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, Const) and isinstance(b, Const):
        return type(a.value) is type(b.value) and bool(a.value == b.value)
    return isinstance(a, Facts) and isinstance(b, Facts) and a == b


def differing(value: Any, differs: tuple[Difference, ...]) -> Any:
    """A number, text, tensor or choice, known to be another one on each rank."""
    if isinstance(value, Facts):
        place = placement.RATIO if value.place.is_replicate else value.place
        known = tuple(dict.fromkeys((*value.differs, *differs)))
        return facts_.replace(value, place=place, total=facts_.EVEN_UNKNOWN, clean=False, differs=known)
    if isinstance(value, Data):
        result = Data(differing(value.facts, differs), value.site, value.default)
        result.made = value.made
        return result
    if isinstance(value, Choice):
        return Choice(value.options, value.test, tuple(dict.fromkeys((*value.differs, *differs))))
    return value


def _doubted(joined: Any, values: list[Any]) -> Any:
    """A loss that is one thing or another: nothing is said of the scale of what only one of them has."""
    if not isinstance(joined, Data) or not joined.facts.terms:
        return joined
    facts = [value.facts for value in values if isinstance(value, Data)]
    exchanged = len({each.detached for each in facts}) > 1
    common = set.intersection(*[set(each.terms) for each in facts])
    if not exchanged and any(len(each.terms) == len(common) for each in facts):
        return joined  # with another addend or without
    terms = [t if t in common and not exchanged else dataclasses.replace(t, unsure=True) for t in joined.facts.terms]
    opaque = joined.facts.opaque or exchanged
    return Data(facts_.replace(joined.facts, terms=tuple(terms), opaque=opaque), joined.site)


def join_any(a: Any, b: Any, widen: bool = False) -> Any:
    """Join two states of one location: values, facts, lists of values or tables of values."""
    if a is b:
        return a
    if isinstance(a, Value) and isinstance(b, Value):
        return join(a, b, widen)
    if isinstance(a, Facts) and isinstance(b, Facts):
        return facts_.join(a, b)
    if isinstance(a, Content) and isinstance(b, Content):
        return _join_contents(a, b, widen)
    if isinstance(a, dict) and isinstance(b, dict):
        return {k: join_any(a[k], b[k], widen) if k in a and k in b else a.get(k, b.get(k)) for k in {**a, **b}}
    if isinstance(a, Value) or isinstance(b, Value):
        return b if a is None else a
    if isinstance(a, Joinable) and type(a) is type(b):
        return a.joined(b)
    return a if a == b else None


def join(a: Value, b: Value, widen: bool = False) -> Value:
    """A value that stands for `a` on one path and for `b` on another."""
    if a is b:
        return a
    return _join_options(a, b, lambda x, y: _join_alike(x, y, widen))


def decided(joined: Any, test: Value, yes: Any, no: Any) -> Any:
    """What was made of two values by a join, with the test noted that decides which of them it is."""
    if isinstance(joined, Choice) and len(joined.options) == 2 and joined.options == (yes, no):
        return Choice(joined.options, test, joined.differs)
    if isinstance(joined, Data) and joined is not yes and joined is not no and joined.made is None:
        joined.made = ("if", test, yes, no)
    return joined


def join_all(values: Iterable[Value]) -> Value:
    """A value that stands for each of these (one at least) on a path of its own."""
    return functools.reduce(join, values)


def join_elements(a: Value, b: Value) -> Value:
    """A value that stands for two elements of one list. A negative constant beside others (a label of -100) is kept."""
    if a is b:
        return a
    return _join_options(a, b, lambda x, y: _join_alike(x, y, True) if _is_mark(x) == _is_mark(y) else None)


def _is_mark(value: Value) -> bool:
    if not isinstance(value, Const) or value.site is None:
        return False
    return type(value.value) in (int, float) and value.value < 0


def _join_options(a: Value, b: Value, alike: Callable[[Value, Value], Value | None]) -> Value:
    merged: list[Value] = []
    for value in (*options(a), *options(b)):
        for i, other in enumerate(merged):
            one = alike(other, value)
            if one is not None:
                merged[i] = one
                break
        else:
            merged.append(value)
    if len(merged) > _MOST_OPTIONS:
        # Too many objects to tell them apart: one of each kind stands for all that were made in the same place.
        merged = list({(v.cls, v.site) if isinstance(v, Instance) else v: v for v in merged}.values())
    differs = _joined_differences(a, b)
    if len(merged) == 1:
        return cast(Value, differing(merged[0], differs)) if differs else merged[0]
    if len(merged) > _MOST_OPTIONS:
        return Data(facts_.NOTHING)
    return Choice(tuple(merged), None, tuple(dict.fromkeys(differs)))


def _joined_differences(a: Value, b: Value) -> tuple[Difference, ...]:
    """Why one option is taken on some ranks and another on others, after a join: as in the join of facts, one side is
    enough unless the other may have been made the same on purpose, or by code that was not read.
    """
    sides = [value.differs if isinstance(value, Choice) else () for value in (a, b)]
    for differs, other in ((sides[0], b), (sides[1], a)):
        if differs and any(isinstance(one, Data) and _is_agreed(one) for one in options(other)):
            if not isinstance(other, Choice) or not other.differs:
                return ()
    return tuple(dict.fromkeys((*sides[0], *sides[1])))


def _is_agreed(value: Data) -> bool:
    """May it have been made the same on all ranks?"""
    facts = value.facts
    return not facts.differs and ("received" in value.state or facts.reduced is not None or facts.place.is_unknown)


def _join_alike(a: Value, b: Value, widen: bool) -> Value | None:
    """One value for both where they are of one kind, else None."""
    if a is b:
        return a
    if isinstance(a, Const) and isinstance(b, Const):
        if type(a.value) is type(b.value) and a.value == b.value:
            return a if a.site is not None else b
        if widen and isinstance(a.value, (int, float)) and isinstance(b.value, (int, float)):
            return Data(facts_.replace(CONSTANT, type="number", sources=frozenset()))
        return None
    if isinstance(a, Data) and isinstance(b, Data):
        return _join_data(a, b)
    if widen and isinstance(a, (Data, Const)) and isinstance(b, (Data, Const)):
        # A counter that starts from a literal is a number from then on; None and text stay options of their own.
        const, data = (a, b) if isinstance(a, Const) else (b, a)
        if isinstance(const, Const) and isinstance(data, Data) and isinstance(const.value, (int, float)):
            return data
    if isinstance(a, Instance) and isinstance(b, Instance):
        same = a.cls is b.cls and a.site is not None and a.site == b.site and a.key == b.key
        return b if same else None
    if isinstance(a, Sequence) and isinstance(b, Sequence):
        return _join_sequences(a, b, widen)
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        other = join_any(a.other, b.other, widen)
        return Mapping(join_any(a.entries, b.entries, widen), other, a.site)
    return None


def _join_data(a: Data, b: Data) -> Data:
    joined = facts_.join(a.facts, b.facts)
    if joined is a.facts and a.made is b.made:
        return a
    result = Data(joined, a.site or b.site)
    if a.identity is b.identity:
        result.identity = a.identity
    return result


def _join_sequences(a: Sequence, b: Sequence, widen: bool) -> Sequence | None:
    if a.kind != b.kind:
        return None
    items, element, length = _join_contents(a.content, b.content, widen)
    return Sequence(items, a.kind, element, length, a.site)


def _join_contents(a: Content, b: Content, widen: bool) -> Content:
    if a.items is not None and b.items is not None and len(a.items) == len(b.items):
        return Content([join(x, y, widen) for x, y in zip(a.items, b.items, strict=True)])
    length = facts_.join(a.length, b.length) if a.length is not None and b.length is not None else a.length or b.length
    first, second = element_of(a), element_of(b)
    return Content(
        None, join_elements(first, second) if first is not None and second is not None else first or second, length
    )


def element_of(content: Content) -> Value | None:
    """One value that stands for every element, None for an empty sequence."""
    if content.items is None:
        return content.element
    joined: Value | None = None
    for item in content.items:
        joined = item if joined is None else join_elements(joined, item)
    return joined
