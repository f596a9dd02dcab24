"""Numbers and texts: `int`, `float`, `bool`, `str` and the functions of them, exact where their arguments are known."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from dpcheck.execution import expressions, tensors
from dpcheck.execution import facts as facts_
from dpcheck.execution.facts import CONSTANT, NOTHING, Site, replace
from dpcheck.execution.trail import differing, join_all
from dpcheck.execution.values import FALSE, TRUE, Choice, Const, Data, Sequence, Value

if TYPE_CHECKING:
    from dpcheck.execution.interpreter import Interpreter


def _number(kind: type) -> Callable[..., Value]:
    """`int` or `float`: a number that is not known stays the same number, whatever it is converted to."""

    def convert(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
        value = args[0] if args else Const(kind())
        if isinstance(value, Choice):
            made = join_all([convert(it, [option], {}, site) for option in value.options])
            return cast(Value, differing(made, value.differs)) if value.differs else made
        if isinstance(value, Const):
            try:
                return Const(kind(value.value), value.site)
            except (TypeError, ValueError, OverflowError):
                return Data(CONSTANT)
        facts = replace(facts_.without_gradient(expressions.facts_of(it, value)), type=kind.__name__, ndim=0)
        if not isinstance(value, Data):
            return Data(facts, site)
        result = Data(facts, value.site, value.default)
        result.identity = value.identity
        result.made = value.made
        return result

    return convert


def _boolean(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    if not args:
        return FALSE
    truth = it.truth(args[0])
    if truth is not None:
        return TRUE if truth else FALSE
    result = Data(tensors.test_facts([expressions.facts_of_test(it, args[0])]), site)
    if isinstance(args[0], Data):
        result.identity = args[0].identity
        result.made = args[0].made
    return result


def _string(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    value = expressions.as_text(args[0]) if args else Const("")
    if isinstance(value, Const):
        return Const(str(value.value))
    result = Data(replace(expressions.facts_of(it, value), type="str", grad=False, terms=()), site)
    if isinstance(value, Data):
        result.identity = value.identity
    return result


def unknown(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """Nothing is known of the result but what it was computed from."""
    return Data(tensors.unknown_result([expressions.facts_of(it, a) for a in args]), site)


def _plain(kind: str) -> Callable[..., Value]:
    """A function whose result is of this type and varies as its arguments do."""

    def make(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
        facts = [expressions.facts_of(it, a) for a in args]
        return Data(replace(tensors.elementwise(facts or [CONSTANT]), type=kind, grad=False, terms=()), site)

    return make


def _folded(function: Callable[..., Any], otherwise: Callable[..., Value]) -> Callable[..., Value]:
    """A function of numbers and text: exact where its arguments are."""

    def call(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
        values = [a.value for a in args if isinstance(a, Const)]
        if not args or kwargs or len(values) < len(args):
            return otherwise(it, args, kwargs, site)
        small = all(isinstance(v, (int, float)) and abs(v) < 1000 for v in values) or len(values) == 1
        try:
            made = function(*values) if small else None
        except Exception:
            return Data(NOTHING, site)
        if isinstance(made, tuple):
            return Sequence([Const(part) for part in made], "tuple", site=site)
        return Const(made) if made is not None else otherwise(it, args, kwargs, site)

    return call


def _abs(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    if args and isinstance(args[0], Const) and isinstance(args[0].value, (int, float)):
        return Const(abs(args[0].value))
    return Data(tensors.elementwise([expressions.facts_of(it, a) for a in args] or [CONSTANT]), site)


FUNCTIONS: dict[str, Callable[..., Value]] = {
    "int": _number(int), "float": _number(float), "complex": _plain("number"), "bool": _boolean, "str": _string,
    "bytes": _plain("bytes"), "bytearray": _plain("bytes"), "abs": _abs, "round": _folded(round, _plain("number")),
    "pow": _folded(pow, _plain("number")), "divmod": _folded(divmod, unknown), "repr": _folded(repr, _plain("str")),
    "ord": _folded(ord, _plain("int")), "chr": _folded(chr, _plain("str")), "format": _plain("str"),
    "bin": _plain("str"), "hex": _plain("str"),
}  # fmt: skip
