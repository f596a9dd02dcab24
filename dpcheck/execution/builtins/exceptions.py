"""Python's own exceptions, of which their names are known."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dpcheck.execution.facts import NOTHING, Site
from dpcheck.execution.values import Builtin, Data, Value

if TYPE_CHECKING:
    from dpcheck.execution.interpreter import Interpreter

_OTHERS = (
    "StopIteration", "KeyboardInterrupt", "SystemExit", "GeneratorExit", "NotImplemented", "Ellipsis", "__debug__",
)  # fmt: skip


def find(name: str) -> Callable[..., Value] | None:
    """The constructor of the exception of that name, if it is the name of one."""
    if not name.endswith(("Error", "Exception", "Warning")) and name not in _OTHERS:
        return None

    def make(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
        made = Data(NOTHING)
        made.state["exception"] = name
        return made

    return make


def name_of(value: Value) -> str:
    """The name of a built-in exception, given the class or an object of it."""
    name = value.name if isinstance(value, Builtin) else value.state.get("exception") if isinstance(value, Data) else ""
    return str(name or "")
