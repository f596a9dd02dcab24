"""Reflection: what a program may ask of an object, its class and its attributes by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dpcheck.execution import calls, expressions, tensors
from dpcheck.execution.facts import NOTHING, Site, replace
from dpcheck.execution.trail import join_all
from dpcheck.execution.values import (
    FALSE,
    NONE,
    TRUE,
    Bound,
    Builtin,
    Choice,
    Class,
    Const,
    Data,
    Function,
    Instance,
    Mapping,
    Partial,
    Sequence,
    Value,
    options,
)

if TYPE_CHECKING:
    from dpcheck.execution.interpreter import Interpreter

_TYPES: dict[str, tuple[type, ...]] = {
    "int": (int,), "float": (float,), "str": (str,), "bool": (bool,), "dict": (), "list": (), "tuple": (),
}  # fmt: skip
"""The built-in types that a constant may be asked for, and the classes of the constants that are of them."""


def _isinstance(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    if len(args) < 2:
        return Data(NOTHING)
    answer = is_instance(it, args[0], args[1])
    if answer is not None:
        return TRUE if answer else FALSE
    # What differs between the ranks is of one type on all of them, unless some have chosen another thing altogether.
    answers = {is_instance(it, option, args[1]) for option in options(args[0])}
    chosen = args[0].differs if isinstance(args[0], Choice) and len(answers - {None}) > 1 else ()
    facts = tensors.test_facts([expressions.facts_of(it, args[0])])
    return Data(replace(facts, differs=chosen), site)


def is_instance(it: Interpreter, value: Value, classes: Value) -> bool | None:
    """`isinstance(value, classes)`, None when not known."""
    if isinstance(value, Choice):
        answers = {is_instance(it, option, classes) for option in value.options}
        return answers.pop() if len(answers) == 1 else None
    names = list(classes.items or []) if isinstance(classes, Sequence) else [classes]
    results = [_is_one(value, it.force(cls)) for cls in names]
    if True in results:
        return True
    return None if None in results else False


def _is_one(value: Value, cls: Value) -> bool | None:
    if isinstance(value, Instance):
        if not isinstance(cls, Class):
            return False if isinstance(cls, Builtin) else None
        if cls in value.cls.mro:
            return True
        return None if value.cls.is_opaque else False
    if isinstance(cls, Builtin):
        return _is_of_type(value, cls.name)
    if isinstance(cls, Class):
        if cls.qualified == "torch.Tensor" and isinstance(value, Data) and value.facts.type == "tensor":
            return True
        if isinstance(value, (Sequence, Mapping, Function, Class)):
            return False
        if isinstance(value, Data) and value.facts.type in ("tensor", "str", "int", "float", "bool", "number"):
            return False
    return False if isinstance(value, Const) else None


def _is_of_type(value: Value, name: str) -> bool | None:
    """Is a value that is no object of a class of the built-in type of that name?"""
    if isinstance(value, Const) and name in _TYPES:
        return isinstance(value.value, _TYPES[name])
    if isinstance(value, Sequence):
        return name == value.kind
    if isinstance(value, Mapping):
        return name == "dict"
    if isinstance(value, Data) and value.facts.type == "tensor":
        return False
    return value.facts.type == name if isinstance(value, Data) and value.facts.type in _TYPES else None


def _hasattr(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    if len(args) == 2 and isinstance(args[0], Instance) and isinstance(args[1], Const):
        held = _holds(args[0], str(args[1].value))
        if held is not None:
            return TRUE if held else FALSE
    return Data(replace(NOTHING, type="bool"), site)


def _holds(owner: Instance, name: str) -> bool | None:
    """Has the object an attribute of that name? None: code that was not read may have set it, or computes it."""
    if name in owner.attrs or owner.cls.lookup(name) is not None:
        return True
    opaque = owner.cls.is_opaque or "%opaque" in owner.attrs or owner.cls.lookup("__getattr__") is not None
    return None if opaque else False


def _getattr(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    if len(args) < 2:
        return Data(NOTHING)
    owner, name, *default = args
    if isinstance(name, Data) and name.default is not None:
        name = name.default
    if not isinstance(name, Const) or not isinstance(name.value, str):
        return Data(NOTHING)
    if default and isinstance(owner, Instance) and _holds(owner, name.value) is False:
        return default[0]
    if default and isinstance(owner, Choice):
        return join_all([_getattr(it, [option, *args[1:]], {}, site) for option in owner.options])
    return calls.attribute(it, owner, name.value, site)


def _setattr(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    if len(args) == 3 and isinstance(args[1], Const) and isinstance(args[1].value, str):
        calls.set_attribute(it, args[0], args[1].value, args[2], site)
    elif args and isinstance(args[0], Instance):
        # Which attribute is not known: any of them may be what the user chose instead of its default.
        it.trail.set(args[0].attrs, "%chosen", TRUE)
    return NONE


def _type(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    if args and isinstance(args[0], Instance):
        return args[0].cls
    return Data(NOTHING)


def _callable(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    if args and isinstance(args[0], (Function, Bound, Class, Partial, Builtin)):
        return TRUE
    if args and isinstance(args[0], (Const, Sequence, Mapping)):
        return FALSE
    return Data(replace(NOTHING, type="bool"))


def _vars(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    if args and isinstance(args[0], Instance):
        return Mapping({k: v for k, v in args[0].attrs.items() if not k.startswith("%")})
    return Mapping({}, Data(NOTHING))


def _globals(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    return Mapping({k: v for k, v in it.frame.scope.globals.names.items() if not k.startswith("%")}, Data(NOTHING))


FUNCTIONS: dict[str, Callable[..., Value]] = {
    "isinstance": _isinstance, "hasattr": _hasattr, "getattr": _getattr, "setattr": _setattr, "type": _type,
    "callable": _callable, "vars": _vars, "globals": _globals, "locals": _globals,
}  # fmt: skip
