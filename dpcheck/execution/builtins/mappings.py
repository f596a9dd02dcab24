"""Dictionaries: entries by key, those of keys that are not known, and their methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dpcheck.execution import divisions, listings
from dpcheck.execution.builtins import iteration
from dpcheck.execution.facts import CONSTANT, NOTHING, Site, replace
from dpcheck.execution.trail import element_of, join, join_all, join_elements
from dpcheck.execution.values import NONE, Choice, Const, Content, Data, Lazy, Mapping, Sequence, Value, is_none

if TYPE_CHECKING:
    from dpcheck.execution.interpreter import Interpreter


_MOST_ENTRIES = 300


def any_entry(value: Mapping) -> Value | None:
    """One value that stands for every entry, None for an empty dictionary."""
    found = value.other
    for entry in value.entries.values():
        found = entry if found is None else join_elements(found, entry)
    return found


def key_of(value: Mapping) -> Value:
    """One value that stands for every key."""
    known = element_of(Content([Const(key) for key in value.entries]))
    if value.other is not None or known is None:
        keys = value.state["keys"]
        return keys if isinstance(keys, Value) else Data(replace(CONSTANT, type="str"))
    return known


def put(it: Interpreter, mapping: Mapping, key: Value, value: Value) -> None:
    """`mapping[key] = value`."""
    value = divisions.let_through(it, value)
    if isinstance(key, Const) and isinstance(key.value, (str, int, bool, float, type(None))):
        entries = dict(mapping.entries)
        entries[key.value] = value
        if len(entries) <= _MOST_ENTRIES:
            it.trail.set(mapping.state, "entries", entries)
            return
    if isinstance(key, Choice):
        for option in key.options:
            if isinstance(option, Const) and isinstance(option.value, (str, int)):
                entries = dict(mapping.entries)
                old = entries.get(option.value)
                entries[option.value] = value if old is None else join(old, value)
                it.trail.set(mapping.state, "entries", entries)
        return
    other = mapping.other
    it.trail.set(mapping.state, "other", value if other is None else join_elements(other, value))
    it.trail.set(mapping.state, "keys", key)


def update(it: Interpreter, mapping: Mapping, value: Value) -> None:
    """`mapping.update(value)`."""
    if isinstance(value, Mapping):
        it.trail.set(mapping.state, "entries", {**mapping.entries, **value.entries})
        if value.other is not None:
            put(it, mapping, Data(NOTHING), value.other)
    elif isinstance(value, Choice):
        for option in value.options:
            update(it, mapping, option)
    elif not is_none(value):
        put(it, mapping, Data(NOTHING), Data(NOTHING))


def lookup(it: Interpreter, value: Mapping, index: Value) -> Value:
    """`value[index]`."""
    if isinstance(index, Const):
        try:
            found = value.entries.get(index.value)
        except TypeError:
            found = None
        if found is not None:
            return it.force(found)
        return value.other if value.other is not None else Data(NOTHING)
    if isinstance(index, Data) and isinstance(index.default, Const) and index.default.value in value.entries:
        # A registry looked up by an option: the run with the option's default stands for the others.
        return it.force(value.entries[index.default.value])
    if isinstance(index, Choice) and all(isinstance(o, Const) for o in index.options):
        return join_all([lookup(it, value, option) for option in index.options])
    if any(isinstance(entry, Lazy) for entry in value.entries.values()):
        return Data(NOTHING)
    found = any_entry(value) or Data(NOTHING)
    # By a name that does not come from a listing the same entry is found everywhere.
    named = isinstance(index, Data) and not listings.is_listed(index.facts)
    return listings.in_order(found) if named else found


def _get(it: Interpreter, value: Mapping, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    default = args[1] if len(args) > 1 else kwargs.get("default", NONE)
    key = args[0] if args else NONE
    if isinstance(key, Data) and isinstance(key.default, Const):
        key = key.default
    if isinstance(key, Const):
        found = value.entries.get(key.value)
        if found is not None:
            return it.force(found)
        return default if value.other is None else join(value.other, default)
    return join(any_entry(value) or default, default)


def _pop(it: Interpreter, value: Mapping, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    result = _get(it, value, args, kwargs, site)
    if args and isinstance(args[0], Const) and args[0].value in value.entries:
        it.trail.set(value.state, "entries", {k: v for k, v in value.entries.items() if k != args[0].value})
    return result


def _set_default(it: Interpreter, value: Mapping, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    default = args[1] if len(args) > 1 else NONE
    key = args[0] if args else NONE
    if isinstance(key, Const) and key.value in value.entries:
        return value.entries[key.value]
    put(it, value, key, default)
    return default


def _keys(it: Interpreter, value: Mapping, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    if value.other is None:
        return Sequence([Const(key) for key in value.entries])
    return Sequence(None, "list", key_of(value))


def _values(it: Interpreter, value: Mapping, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    if value.other is None:
        return Sequence(list(value.entries.values()))
    return Sequence(None, "list", any_entry(value))


def _items(it: Interpreter, value: Mapping, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    if value.other is None:
        return Sequence([Sequence([Const(k), v], "tuple") for k, v in value.entries.items()])
    return Sequence(None, "list", Sequence([key_of(value), any_entry(value) or NONE], "tuple"))


def _update(it: Interpreter, value: Mapping, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    for arg in args:
        update(it, value, arg)
    for key, item in kwargs.items():
        put(it, value, Const(key), item)
    return NONE


def _copy(it: Interpreter, value: Mapping, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    return Mapping(dict(value.entries), value.other, value.site)


def _to_batch(it: Interpreter, value: Mapping, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """`batch.to(device)` of a dictionary-like batch."""
    return value


METHODS: dict[str, Callable[..., Value]] = {
    "get": _get, "pop": _pop, "setdefault": _set_default, "keys": _keys, "values": _values, "items": _items,
    "update": _update, "copy": _copy, "to": _to_batch,
}  # fmt: skip


def _dict(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    result = Mapping(dict(kwargs), site=site)
    if args:
        known = iteration.exact_items(args[0])
        if isinstance(args[0], Mapping) or known is None:
            update(it, result, args[0])
        else:
            for pair in known:
                parts = iteration.exact_items(pair, 2)
                if parts is not None and len(parts) == 2:
                    put(it, result, parts[0], parts[1])
    return result


FUNCTIONS: dict[str, Callable[..., Value]] = {"dict": _dict}
