"""Classes: the decorators of methods, constructors that nobody wrote, and what every class has."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dpcheck.execution import calls
from dpcheck.execution.facts import CONSTANT, NOTHING, Site, replace
from dpcheck.execution.trail import join
from dpcheck.execution.values import (
    NONE,
    Builtin,
    Class,
    ClassMethod,
    Const,
    Data,
    Function,
    Instance,
    Property,
    Sequence,
    StaticMethod,
    Value,
)

if TYPE_CHECKING:
    from dpcheck.execution.interpreter import Interpreter


def _property(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    return Property(args[0]) if args else NONE


DECORATORS: dict[str, Callable[[Value], Value]] = {
    "property": Property,
    "staticmethod": StaticMethod,
    "classmethod": ClassMethod,
}


def fill_fields(it: Interpreter, instance: Instance, args: list[Value], kwargs: dict[str, Value]) -> None:
    """What the constructor of a dataclass (or of any class without one) does: arguments become attributes."""
    names = _field_names(instance.cls)
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    for name in names:
        value = given[name] if name in given else _default_of(it, instance.cls.lookup(name))
        if value is not None:
            it.trail.set(instance.attrs, name, value)
    for name, value in kwargs.items():
        if name != "%other":
            it.trail.set(instance.attrs, name, value)
    loose = kwargs.get("%other")
    if loose is not None:
        for name in names:
            if name not in kwargs:
                old = instance.attrs.get(name)
                it.trail.set(instance.attrs, name, loose if old is None else join(old, loose))
    post = instance.cls.lookup("__post_init__")
    if post is not None and names:
        calls.call(it, calls.bind(instance, post), [], {}, instance.site or it.site(0))


def _field_names(cls: Class) -> list[str]:
    """The annotated names of a class and its bases, those of the bases first."""
    names: list[str] = []
    for each in reversed(cls.mro):
        fields = each.attrs.get("%fields")
        if isinstance(fields, Sequence):
            names.extend(str(f.value) for f in fields.items or [] if isinstance(f, Const) and f.value not in names)
    return names


def _default_of(it: Interpreter, default: Value | None) -> Value | None:
    """What a field is that was not given."""
    if isinstance(default, Instance) and default.cls.name == "Field":
        default = calls.call_method(it, default, "make", [], {}, it.site(0))
    return None if isinstance(default, (Function, Property)) else default


def class_attribute(cls: Class, name: str, site: Site) -> Value | None:
    """What every class has without defining it, None where it is not one of these."""
    if name == "__new__":
        return Builtin(name, lambda it, args, kwargs, site: Instance(cls, site))
    return Data(replace(CONSTANT, type="str")) if name == "__doc__" else None


FUNCTIONS: dict[str, Callable[..., Value]] = {
    "property": _property,
    "staticmethod": lambda it, a, k, s: StaticMethod(a[0]) if a else NONE,
    "classmethod": lambda it, a, k, s: ClassMethod(a[0]) if a else NONE,
    "object": lambda it, a, k, s: Data(NOTHING),
}
