"""Abstract values: what an expression may evaluate to when a program is executed without running it.

Mutable values keep their state in a plain dictionary (`state` or `attrs`), written only through `Trail.set`, so that a
branch can be undone and joined with another.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from dpcheck.execution.facts import CONSTANT, Difference, Facts, Site, Source, SourceKind, replace
from dpcheck.program import records

if TYPE_CHECKING:
    from dpcheck.program.link import Unit


class Store(dict[str, Any]):
    """The state of one mutable value. `serial` tells a branch whether the value was born inside it."""

    __slots__ = ("serial",)
    born = itertools.count(1)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.serial = next(Store.born)


class Value:
    __slots__ = ()


class Const(Value):
    """A Python constant. `site` is the literal that it came from."""

    __slots__ = ("site", "value")

    def __init__(self, value: Any, site: Site | None = None) -> None:
        self.value = value
        self.site = site

    def __repr__(self) -> str:
        return f"Const({self.value!r})"


class Data(Value):
    """A number, tensor, array, string or foreign object that is known by its facts alone.

    `default` is the value that an option has when the user gives none; `note` is free for the maker (see `Builtins`).
    `made`: the operator and the operands that a number or a test was computed from (see `dpcheck.execution.formulas`).
    """

    __slots__ = ("default", "identity", "made", "site", "state")

    def __init__(self, facts: Facts, site: Site | None = None, default: Value | None = None) -> None:
        self.state = Store({"facts": facts})
        self.site = site
        self.default = default
        self.identity: object = self
        self.made: tuple[Any, ...] | None = None

    @property
    def facts(self) -> Facts:
        facts: Facts = self.state["facts"]
        return facts

    def __repr__(self) -> str:
        return f"Data({self.facts.place}, {self.facts.type})"


class Content(NamedTuple):
    """What is in a sequence: the items one by one, or one element that stands for all and what their number is."""

    items: list[Value] | None
    element: Value | None = None
    length: Facts | None = None


class Sequence(Value):
    """A list, tuple, set or any other iterable that has been looked through."""

    __slots__ = ("kind", "site", "state")

    def __init__(
        self,
        items: list[Value] | None,
        kind: str = "list",
        element: Value | None = None,
        length: Facts | None = None,
        site: Site | None = None,
    ) -> None:
        self.kind = kind
        self.site = site
        self.state = Store({"content": Content(items, element, length)})

    @property
    def content(self) -> Content:
        content: Content = self.state["content"]
        return content

    @property
    def items(self) -> list[Value] | None:
        return self.content.items

    @property
    def element(self) -> Value | None:
        return self.content.element

    @property
    def length(self) -> Facts | None:
        return self.content.length

    def __repr__(self) -> str:
        return f"Sequence({self.kind}, {self.items if self.items is not None else self.element})"


class Mapping(Value):
    """A dictionary. `state["entries"]` maps constant keys to values; `other` stands for all entries beside them."""

    __slots__ = ("site", "state")

    def __init__(self, entries: dict[Any, Value] | None = None, other: Value | None = None, site: Site | None = None):
        self.site = site
        self.state = Store({"entries": entries or {}, "other": other, "keys": None})

    @property
    def entries(self) -> dict[Any, Value]:
        entries: dict[Any, Value] = self.state["entries"]
        return entries

    @property
    def other(self) -> Value | None:
        other: Value | None = self.state["other"]
        return other

    def __repr__(self) -> str:
        return f"Mapping({self.entries}, {self.other})"


class Scope:
    """The names of one running function, class body or module."""

    __slots__ = ("function_locals", "globals", "is_comprehension", "names", "parent", "stars", "unit")

    def __init__(self, unit: Unit, parent: Scope | None, globals_: Scope | None = None) -> None:
        self.unit = unit
        self.parent = parent
        self.names = Store()
        self.globals: Scope = globals_ or self
        self.function_locals: frozenset[str] = frozenset()
        self.is_comprehension = False
        self.stars: list[Unit] = []  # modules whose names are all imported, the last one first


class Function(Value):
    """A function or lambda of the program with the scope that it closes over."""

    __slots__ = ("attrs", "defaults", "name", "owner", "record", "scope")

    def __init__(
        self,
        record: records.Function | records.Lambda,
        scope: Scope,
        defaults: dict[str, Value],
        owner: Class | None = None,
    ) -> None:
        self.record = record
        self.scope = scope
        self.defaults = defaults
        self.owner = owner
        self.name = getattr(record, "name", "<lambda>")
        self.attrs = Store()

    def __repr__(self) -> str:
        return f"Function({self.name})"


class Class(Value):
    __slots__ = ("_mro", "attrs", "bases", "name", "opaque_base", "record", "site", "unit")

    def __init__(
        self,
        name: str,
        bases: list[Class],
        unit: Unit,
        record: records.Class | None,
        site: Site | None,
        opaque_base: bool,
    ) -> None:
        self.name = name
        self.bases = bases
        self.unit = unit
        self.record = record
        self.site = site
        self.attrs = Store()
        self.opaque_base = opaque_base
        self._mro: list[Class] | None = None

    @property
    def mro(self) -> list[Class]:
        """C3 where it exists, else depth first without repeats."""
        if self._mro is None:
            self._mro = _linearize(self)
        return self._mro

    @property
    def is_opaque(self) -> bool:
        """Does a base class lie outside what was read?"""
        return any(cls.opaque_base for cls in self.mro)

    def lookup(self, name: str) -> Value | None:
        for cls in self.mro:
            if name in cls.attrs:
                found: Value = cls.attrs[name]
                return found
        return None

    def is_a(self, qualified: str) -> bool:
        return any(cls.qualified == qualified for cls in self.mro)

    @property
    def qualified(self) -> str:
        return f"{self.unit.name}.{self.name}"

    def __repr__(self) -> str:
        return f"Class({self.name})"


def _linearize(cls: Class) -> list[Class]:
    sequences = [list(base.mro) for base in cls.bases] + [list(cls.bases)]
    result = [cls]
    while any(sequences):
        for sequence in sequences:
            if sequence and not any(sequence[0] in other[1:] for other in sequences):
                head = sequence[0]
                break
        else:
            rest = [c for sequence in sequences for c in sequence]
            return result + list(dict.fromkeys(c for c in rest if c not in result))
        result.append(head)
        sequences = [[c for c in sequence if c is not head] for sequence in sequences]
    return result


class Instance(Value):
    """An object. `key`: which execution of its `site` made it; those that one and the same made, in several passes of
    a loop, are taken for one.
    """

    __slots__ = ("attrs", "cls", "key", "site")

    def __init__(self, cls: Class, site: Site | None, key: object = None) -> None:
        self.cls = cls
        self.site = site
        self.key = key
        self.attrs = Store()

    def is_a(self, qualified: str) -> bool:
        return self.cls.is_a(qualified)

    def __repr__(self) -> str:
        return f"Instance({self.cls.name})"


class Bound(Value):
    """A method bound to its object."""

    __slots__ = ("function", "receiver")

    def __init__(self, function: Value, receiver: Value) -> None:
        self.function = function
        self.receiver = receiver

    def __repr__(self) -> str:
        return f"Bound({self.function}, {self.receiver})"


class Partial(Value):
    __slots__ = ("args", "function", "kwargs")

    def __init__(self, function: Value, args: list[Value], kwargs: dict[str, Value]) -> None:
        self.function = function
        self.args = args
        self.kwargs = kwargs


class Builtin(Value):
    """A function of Python, of torch's tensor algebra, or an intrinsic, carried out by the interpreter itself."""

    __slots__ = ("call", "name")

    def __init__(self, name: str, call: Callable[..., Value]) -> None:
        self.name = name
        self.call = call

    def __repr__(self) -> str:
        return f"Builtin({self.name})"


class ModuleValue(Value):
    __slots__ = ("scope", "unit")

    def __init__(self, unit: Unit, scope: Scope) -> None:
        self.unit = unit
        self.scope = scope

    def __repr__(self) -> str:
        return f"Module({self.unit.name})"


class Foreign(Value):
    """A name of a package that was not read: `wandb.log`. Its effects and results are unknown."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"Foreign({self.name})"


class Lazy(Value):
    """An imported name that has not been looked at yet: looking executes its module. `name` None: the module itself."""

    __slots__ = ("name", "unit")

    def __init__(self, unit: Unit, name: str | None) -> None:
        self.unit = unit
        self.name = name


class Generator(Value):
    """A call of a generator function that has not run yet. `run(on_yield)` carries it out."""

    __slots__ = ("kind", "run", "state")

    def __init__(self, run: Callable[[Callable[[Value], Value]], None]) -> None:
        self.run = run
        self.state = Store({"seen": None})


class Super(Value):
    __slots__ = ("after", "receiver")

    def __init__(self, after: Class, receiver: Value) -> None:
        self.after = after
        self.receiver = receiver


class Property(Value):
    __slots__ = ("getter", "setter")

    def __init__(self, getter: Value, setter: Value | None = None) -> None:
        self.getter = getter
        self.setter = setter


class StaticMethod(Value):
    __slots__ = ("function",)

    def __init__(self, function: Value) -> None:
        self.function = function


class ClassMethod(Value):
    __slots__ = ("function",)

    def __init__(self, function: Value) -> None:
        self.function = function


class Choice(Value):
    """One of a few values, depending on a condition that is not known.

    `test`: the condition, if it is one; then there are two options, the first of them for where it holds. `differs`:
    why it is one on some ranks and another on others.
    """

    __slots__ = ("differs", "options", "test")

    def __init__(
        self, options: tuple[Value, ...], test: Value | None = None, differs: tuple[Difference, ...] = ()
    ) -> None:
        self.options = options
        self.test = test
        self.differs = differs

    def __repr__(self) -> str:
        return f"Choice{self.options}"


def options(value: Value | None) -> Iterator[Value]:
    """The values that `value` may be."""
    if isinstance(value, Choice):
        yield from value.options
    elif value is not None:
        yield value


def is_none(value: Value | None) -> bool:
    return isinstance(value, Const) and value.value is None


def is_true(value: Value | None) -> bool:
    return isinstance(value, Const) and value.value is True


def is_false(value: Value | None) -> bool:
    return isinstance(value, Const) and value.value is False


def text_of(value: Value | None) -> str:
    """A constant as text, and no text for what is not one."""
    return str(value.value) if isinstance(value, Const) else ""


def option(kind: str, default: Value | None, site: Site) -> Data:
    """A value of this type that the user of the script chooses; `default` is what it is otherwise."""
    source = Source(SourceKind.OPTION, site)
    facts = replace(CONSTANT, type=kind, ndim=0, sources=frozenset((source,)), clean=False)
    return Data(facts, site, default)


def chosen(default: Const, site: Site) -> Data:
    """What stands in the place of a constant that the user may have overridden."""
    return option("" if default.value is None else type(default.value).__name__, default, site)


NONE = Const(None)
TRUE = Const(True)
FALSE = Const(False)
