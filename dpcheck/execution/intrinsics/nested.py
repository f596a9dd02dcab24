"""Values inside values: one change made to every datum in a list, a dictionary or an object."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

from dpcheck.execution.builtins import sequences
from dpcheck.execution.values import Choice, Data, Instance, Mapping, Sequence, Value

if TYPE_CHECKING:
    from dpcheck.execution.interpreter import Interpreter


def each_datum(
    it: Interpreter,
    value: Value,
    change: Callable[[Data], Value],
    depth: int,
    alike: Callable[[Sequence, Value | None], Sequence] | None = None,
) -> Value:
    """`value` with every datum in it changed, so many levels deep. Of an object the attributes are set.

    `alike`: how a sequence of unknown length is made anew of its changed element.
    """
    if isinstance(value, Data):
        return change(value)
    if depth < 0:
        return value
    inside = functools.partial(each_datum, it, change=change, depth=depth - 1, alike=alike)
    if isinstance(value, Sequence):
        if value.items is not None:
            return Sequence([inside(item) for item in value.items], value.kind, site=value.site)
        element = inside(value.element) if value.element is not None else None
        return (alike or sequences.alike)(value, element)
    if isinstance(value, Mapping):
        other = inside(value.other) if value.other is not None else None
        return Mapping({key: inside(entry) for key, entry in value.entries.items()}, other, value.site)
    if isinstance(value, Choice):
        return Choice(tuple(inside(option) for option in value.options))
    if isinstance(value, Instance):
        for name, held in list(value.attrs.items()):
            if isinstance(held, (Data, Sequence, Mapping, Choice)) and not name.startswith("%"):
                it.trail.set(value.attrs, name, inside(held))
    return value
