"""Calling back: functions of the user that a library calls, and what reaches code that was not read."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from dpcheck.execution import calls
from dpcheck.execution.builtins import iteration
from dpcheck.execution.facts import NOTHING, Site, replace
from dpcheck.execution.intrinsics.arguments import Arguments, Table, entries_of
from dpcheck.execution.values import (
    FALSE,
    NONE,
    TRUE,
    Bound,
    Data,
    Foreign,
    Function,
    Mapping,
    Partial,
    Value,
    options,
    text_of,
)

if TYPE_CHECKING:
    from dpcheck.execution.interpreter import Interpreter


def _partial(it: Interpreter, a: Arguments, site: Site) -> Value:
    args = iteration.exact_items(a.get("args", NONE)) or []
    return Partial(a["function"], list(args), entries_of(a.get("kwargs")))


def _named_like(it: Interpreter, a: Arguments, site: Site) -> Value:
    """`wrapper`, which stands for `function` from here on (`functools.wraps`)."""
    wrapper, function = a["wrapper"], a["function"]
    if isinstance(wrapper, Function) and isinstance(function, Function):
        wrapper.name = function.name
        wrapper.attrs["__wrapped__"] = function
    return wrapper


def _accepts(it: Interpreter, a: Arguments, site: Site) -> Value:
    """Has a function a parameter of that name? `"**"` asks for any further keywords."""
    name, function = text_of(a["name"]), a["function"]
    if isinstance(function, Bound):
        function = function.function
    if not isinstance(function, Function):
        return Data(replace(NOTHING, type="bool"))
    parameters = function.record.params
    return TRUE if any(p.kind == "**" if name == "**" else p.name == name for p in parameters) else FALSE


def _caller_arguments(it: Interpreter, a: Arguments, site: Site) -> Value:
    """The arguments of the user's function that called into the library, by name."""
    for frame in reversed(it.frames):
        if not frame.unit.is_stub and frame.function is not None:
            held: dict[Any, Value] = {}
            for param in frame.function.record.params:
                value = frame.scope.names.get(param.name)
                if param.kind == "**" and isinstance(value, Mapping):
                    held |= value.entries
                elif isinstance(value, Value) and param.kind != "*" and value is not frame.receiver:
                    held[param.name] = value
            return Mapping(held)
    return Mapping({}, Data(NOTHING))


def _each(it: Interpreter, a: Arguments, site: Site) -> Value:
    """`function(value)` for each of the values that `value` may be, joined."""
    function = a["function"]
    found = list(options(a["value"]))
    if len(found) == 1:
        return calls.call(it, function, found, {}, site)
    sides = [functools.partial(calls.call, it, function, [one], {}, site) for one in found]
    return it.branches(sides)


def _map_values(it: Interpreter, a: Arguments, site: Site) -> Value:
    """A dictionary with `function(value)` for each value, also for those of unknown keys."""
    function, mapping = a["function"], a["mapping"]
    if not isinstance(mapping, Mapping):
        return mapping
    made = {key: calls.call(it, function, [value], {}, site) for key, value in mapping.entries.items()}
    other = calls.call(it, function, [mapping.other], {}, site) if mapping.other is not None else None
    result = Mapping(made, other, mapping.site)
    result.state["keys"] = mapping.state["keys"]
    return result


def _escape(it: Interpreter, a: Arguments, site: Site) -> Value:
    for value in a.values():
        calls.escape(it, value, site)
    return NONE


def _call_unknown(it: Interpreter, a: Arguments, site: Site) -> Value:
    return calls.call_unknown(it, Foreign("?"), list(a.values()), {}, site)


INTRINSICS: Table = {
    "partial": (_partial, ("function", "args", "kwargs")),
    "each": (_each, ("function", "value")),
    "map_values": (_map_values, ("function", "mapping")),
    "escape": (_escape, tuple("abcdefgh")),
    "named_like": (_named_like, ("wrapper", "function")),
    "call_unknown": (_call_unknown, tuple("abcdefgh")),
    "accepts": (_accepts, ("function", "name")),
    "caller_arguments": (_caller_arguments, ()),
}
