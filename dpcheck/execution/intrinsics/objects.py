"""Objects: copied, given attributes all at once, and entered as context managers for as long as another one says."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from dpcheck.execution import calls
from dpcheck.execution.facts import Site, replace
from dpcheck.execution.intrinsics.arguments import Arguments, Table
from dpcheck.execution.values import (
    NONE,
    TRUE,
    Choice,
    Data,
    Generator,
    Instance,
    Mapping,
    Sequence,
    Value,
    options,
)

if TYPE_CHECKING:
    from dpcheck.execution.interpreter import Interpreter


def _copy(it: Interpreter, a: Arguments, site: Site) -> Value:
    value = a["value"]
    if isinstance(value, Instance):
        made = Instance(value.cls, site, it.path)
        made.attrs.update(value.attrs)
        return made
    if isinstance(value, Sequence):
        return Sequence(value.items, value.kind, value.element, value.length, value.site)
    if isinstance(value, Mapping):
        return Mapping(dict(value.entries), value.other, value.site)
    if isinstance(value, Data):
        return Data(value.facts, value.site)
    return value


_MOST_COPIES = 4000


def _deep_copy(it: Interpreter, a: Arguments, site: Site) -> Value:
    """A copy that shares nothing with the original: a copied module has parameters of its own."""
    copies: dict[int, Value] = {}

    def copied(value: Value) -> Value:
        known = copies.get(id(value))
        if known is not None or len(copies) > _MOST_COPIES:
            return known or value
        if isinstance(value, Instance):
            twin = Instance(value.cls, site, it.path)
            copies[id(value)] = twin
            for name, part in list(value.attrs.items()):
                twin.attrs[name] = copied(part) if isinstance(part, Value) else part
            return twin
        if isinstance(value, Sequence):
            items = [copied(item) for item in value.items] if value.items is not None else None
            element = copied(value.element) if value.element is not None else None
            made = Sequence(items, value.kind, element, value.length, value.site)
            made.state.update({key: held for key, held in value.state.items() if key != "content"})
            return copies.setdefault(id(value), made)
        if isinstance(value, Mapping):
            entries = {key: copied(entry) for key, entry in value.entries.items()}
            table = Mapping(entries, copied(value.other) if value.other is not None else None, value.site)
            table.state["keys"] = value.state["keys"]
            return copies.setdefault(id(value), table)
        if isinstance(value, Choice):
            return Choice(tuple(map(copied, value.options)), value.test, value.differs)
        if isinstance(value, Data):
            datum = Data(value.facts, value.site, value.default)
            datum.identity, datum.made = (value.identity, value.made) if value.facts.type != "tensor" else (datum, None)
            copies[id(value)] = datum
            return datum
        return value

    result = copied(a["value"])
    for one in copies.values():
        if isinstance(one, Data) and one.facts.parameter_of:
            owners = tuple(copies.get(id(owner), owner) for owner in one.facts.parameter_of)
            one.state["facts"] = replace(one.facts, parameter_of=owners)
    return result


def _set_attributes(it: Interpreter, a: Arguments, site: Site) -> Value:
    """Set every entry of a mapping as an attribute of an object."""
    owner, entries = a["owner"], a["entries"]
    if isinstance(owner, Instance) and isinstance(entries, Mapping):
        for key, value in entries.entries.items():
            if isinstance(key, str):
                it.trail.set(owner.attrs, key, value)
        if entries.other is not None:
            it.trail.set(owner.attrs, "%opaque", TRUE)
    return NONE


class _SuspendedError(Exception):
    """A generator stands at its `yield` for good."""


def _enter(it: Interpreter, a: Arguments, site: Site) -> Value:
    """Enter a context manager for as long as `stack` says: what it changed is changed back by `leave(stack)`."""
    stack = a["stack"]
    result: Value = NONE
    for manager in options(a["manager"]):
        mark = it.trail.mark()
        result = _entered(it, manager, site)
        if isinstance(stack, Instance):
            before = stack.attrs.get("%entered") or ()
            it.trail.set(stack.attrs, "%entered", (*before, *it.trail.writes(mark).values()))
    return result


def _entered(it: Interpreter, manager: Value, site: Site) -> Value:
    """What a context manager does up to its block, and what it hands to it."""
    if isinstance(manager, Instance):
        return calls.call_method(it, manager, "__enter__", [], {}, site)
    handed: list[Value] = []

    def take(value: Value) -> Value:
        handed.append(value)
        raise _SuspendedError

    if isinstance(manager, Generator):
        with contextlib.suppress(_SuspendedError):
            manager.run(calls.outside(it, take))
    return handed[0] if handed else NONE


def _leave(it: Interpreter, a: Arguments, site: Site) -> Value:
    stack = a["stack"]
    entered = stack.attrs.get("%entered") if isinstance(stack, Instance) else None
    for write in reversed(entered or ()):
        if isinstance(write.old, Value):
            it.trail.set(write.store, write.key, write.old)
    return NONE


INTRINSICS: Table = {
    "copy": (_copy, ("value",)),
    "deep_copy": (_deep_copy, ("value",)),
    "set_attributes": (_set_attributes, ("owner", "entries")),
    "enter": (_enter, ("stack", "manager")),
    "leave": (_leave, ("stack",)),
}
