"""Settings: what the user of a script chooses, and the objects and calls that command-line generators make of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpcheck.execution import calls
from dpcheck.execution.facts import Site, SourceKind
from dpcheck.execution.intrinsics import ranks
from dpcheck.execution.intrinsics.arguments import Arguments, Table, site_of
from dpcheck.execution.values import (
    NONE,
    Bound,
    Builtin,
    Class,
    Const,
    Data,
    Function,
    Instance,
    Mapping,
    Sequence,
    Value,
    chosen,
    option,
    options,
    text_of,
)
from dpcheck.program import records as r

if TYPE_CHECKING:
    from dpcheck.execution.interpreter import Interpreter


def _option(it: Interpreter, a: Arguments, site: Site) -> Value:
    """A value that the user of the script chooses; `default` is what it is otherwise."""
    kind, default = a.get("type"), a.get("default")
    if isinstance(default, Data) and default.identity in ("rank", "world size", "local rank"):
        return default
    return option(kind.name if isinstance(kind, Builtin) else text_of(kind), default, site)


def _field_options(it: Interpreter, a: Arguments, site: Site) -> Value:
    """The fields of a dataclass, each as an option of its name that has the field's default."""
    found: dict[Any, Value] = {}
    for one in options(a["cls"]):
        if isinstance(one, Class):
            found |= _fields_of(it, one, site)
    return Mapping(found)


def _fields_of(it: Interpreter, cls: Class, site: Site) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for each in reversed(cls.mro):
        names = each.attrs.get("%fields")
        for name in names.items or [] if isinstance(names, Sequence) else []:
            if isinstance(name, Const) and isinstance(name.value, str):
                found[name.value] = _option_named(it, name.value, each.attrs.get(name.value), site)
    return found


def _option_named(it: Interpreter, name: str, default: Value | None, site: Site) -> Value:
    """An option for a parameter or field of that name: of the default's type, or filled like it, if it has fields."""
    if name == "local_rank":
        return ranks.local_rank(it, {}, site)
    if isinstance(default, Instance) and default.cls.qualified == "dataclasses.Field":
        default = calls.call_method(it, default, "make", [], {}, site)
    if isinstance(default, Instance) and default.cls.lookup("%fields") is not None:
        return _filled_with_options(it, default.cls, site)
    if isinstance(default, Data) and default.facts.has(SourceKind.OPTION):
        return default
    if isinstance(default, Const):
        return chosen(default, default.site or site)
    return _option(it, {"default": default or NONE}, site_of(default) or site)


def _filled_with_options(it: Interpreter, cls: Class, site: Site) -> Value:
    """An object of a dataclass whose fields are options."""
    return calls.instantiate(it, cls, [], _fields_of(it, cls, site), site)


def _call_with_options(it: Interpreter, a: Arguments, site: Site) -> Value:
    """Call a function or class with an option for each of its parameters: what command-line generators do."""
    target = a["function"]
    if isinstance(target, Class) and target.lookup("__init__") is None:
        return _filled_with_options(it, target, site)
    function = target.lookup("__init__") if isinstance(target, Class) else target
    bound = isinstance(target, Class)
    if isinstance(function, Bound):
        function, bound = function.function, True
    given = _parameter_options(it, function, bound, site) if isinstance(function, Function) else {}
    return calls.call(it, target, [], given, site)


def _parameter_options(it: Interpreter, function: Function, bound: bool, site: Site) -> dict[str, Value]:
    """An option for each parameter of a function; `bound`: the first one is given already."""
    given: dict[str, Value] = {}
    parameters = [p for p in function.record.params if p.name and p.kind not in ("*", "**")]
    for parameter in parameters[1:] if bound else parameters:
        kind = _annotated_class(it, function, parameter.annotation)
        if kind is not None:
            given[parameter.name] = _filled_with_options(it, kind, site)
        else:
            given[parameter.name] = _option_named(it, parameter.name, function.defaults.get(parameter.name), site)
    if any(p.kind == "**" for p in function.record.params):
        given["%other"] = option("", None, site)
    return given


def _annotated_class(it: Interpreter, function: Function, annotation: r.Expr | None) -> Class | None:
    """The dataclass that a parameter is annotated with, if it is one."""
    if not isinstance(annotation, (r.Name, r.Attr)):
        return None
    name = annotation.id if isinstance(annotation, r.Name) else annotation.name
    found = it.force(function.scope.globals.names.get(name) or NONE)
    return found if isinstance(found, Class) and found.lookup("%fields") is not None else None


INTRINSICS: Table = {
    "option": (_option, ("default", "type")),
    "field_options": (_field_options, ("cls",)),
    "call_with_options": (_call_with_options, ("function",)),
}
