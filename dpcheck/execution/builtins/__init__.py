"""Python's own functions and types, as far as an abstract execution of them goes; `find` gives one by its name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dpcheck.execution import exits, expressions, reports
from dpcheck.execution.builtins import (
    classes,
    exceptions,
    iteration,
    mappings,
    reductions,
    reflection,
    scalars,
    sequences,
)
from dpcheck.execution.completion import Completion, PathEndedError
from dpcheck.execution.facts import EVEN_UNKNOWN, NOTHING, Site, replace
from dpcheck.execution.values import NONE, Builtin, Const, Data, Value

if TYPE_CHECKING:
    from dpcheck.execution.interpreter import Interpreter


def _nothing(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    return NONE


def _exit(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    exits.end_process(it, args, site)
    raise PathEndedError(Completion.EXIT)


def _open(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """A file, of text where its mode does not say otherwise: every rank reads the same from the same path."""
    facts = expressions.facts_of(it, args[0]) if args else NOTHING
    mode = args[1] if len(args) > 1 else kwargs.get("mode", Const("r"))
    kind = "binary file"
    if args and isinstance(mode, Const) and isinstance(mode.value, str):
        kind = "binary file" if "b" in mode.value else "file"
        it.record("write" if set(mode.value) & set("wax+") else "read", site, None, path=args[0])
    unread = {"lead": EVEN_UNKNOWN, "rest": EVEN_UNKNOWN, "total": EVEN_UNKNOWN}
    return Data(replace(facts, type=kind, clean=False, **unread), site)


def _print(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    reports.told(it, args, site)
    return NONE


_WITHOUT_EFFECT = ("exec", "delattr")
_UNKNOWN = (
    "issubclass", "hash", "id", "input", "eval", "compile", "super", "slice", "dir", "__import__", "memoryview",
    "BaseException", "Exception",
)  # fmt: skip
_FUNCTIONS: dict[str, Callable[..., Value]] = {
    **scalars.FUNCTIONS,
    **sequences.FUNCTIONS,
    **mappings.FUNCTIONS,
    **iteration.FUNCTIONS,
    **reductions.FUNCTIONS,
    **reflection.FUNCTIONS,
    **classes.FUNCTIONS,
    **dict.fromkeys(_WITHOUT_EFFECT, _nothing),
    **dict.fromkeys(_UNKNOWN, scalars.unknown),
    **dict.fromkeys(("exit", "quit"), _exit),
    "open": _open,
    "print": _print,
}


def find(it: Interpreter, name: str) -> Value | None:
    """The function, type or exception of that name: always the same value in one run."""
    value = it.builtins.get(name)
    if value is None:
        function = _FUNCTIONS.get(name) or exceptions.find(name)
        if function is not None:
            value = it.builtins[name] = Builtin(name, function)
    return value
