"""Knowledge: values that are known only in part, and what a stub may ask of a value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpcheck.execution import expressions, tensors
from dpcheck.execution.facts import CONSTANT, EVEN_UNKNOWN, NOTHING, Site, replace
from dpcheck.execution.intrinsics.arguments import Arguments, Table, site_of
from dpcheck.execution.values import FALSE, TRUE, Const, Data, Instance, Mapping, Sequence, Value, options, text_of

if TYPE_CHECKING:
    from dpcheck.execution.interpreter import Interpreter


def _unknown(it: Interpreter, a: Arguments, site: Site) -> Value:
    """Something that is not known; `like` (any number of keywords) says what it depends on."""
    return Data(tensors.unknown_result([expressions.facts_of(it, v) for v in a.values()]), site)


def _constant(it: Interpreter, a: Arguments, site: Site) -> Value:
    """A value that is not known but the same on every rank, such as the content of a file."""
    shape = {"lead": EVEN_UNKNOWN, "rest": EVEN_UNKNOWN, "total": EVEN_UNKNOWN}
    return Data(replace(CONSTANT, type=text_of(a.get("type")), clean=False, **shape), site)


def _counter(it: Interpreter, a: Arguments, site: Site) -> Value:
    """A number that counts the passes of a loop inside a framework."""
    return expressions.counter(it, site)


def _certainly(it: Interpreter, a: Arguments, site: Site) -> Value:
    """True where the condition is known to hold, else False: for what a stub takes for granted only when it is sure."""
    return TRUE if it.truth(a["condition"]) else FALSE


def _is_tensor(it: Interpreter, a: Arguments, site: Site) -> Value:
    value = a["value"]
    if isinstance(value, Data) and value.facts.type == "tensor":
        return TRUE
    if isinstance(value, (Sequence, Mapping, Const, Instance)):
        return FALSE
    return Data(replace(NOTHING, type="bool"))


def _kind_of(it: Interpreter, a: Arguments, site: Site) -> Value:
    """What a value is: "tensor", "number", "text", "sequence", "mapping" or "object", if it is that for certain."""
    kinds = {_kind(one) for one in options(a["value"])}
    return Const(kinds.pop() if len(kinds) == 1 else "unknown")


def _kind(value: Value) -> str:
    if isinstance(value, Const):
        return "text" if isinstance(value.value, str) else "number"
    if isinstance(value, Data):
        known = {"tensor": "tensor", "str": "text", "": "unknown"}
        return known.get(value.facts.type, "number")
    if isinstance(value, Sequence):
        return "sequence"
    if isinstance(value, Mapping):
        return "mapping"
    return "object" if isinstance(value, Instance) else "unknown"


def _located(it: Interpreter, a: Arguments, site: Site) -> Value:
    """`value`, as if it had been made where the literal `at` stands: the user's argument that chose it."""
    value = a["value"]
    return Data(expressions.facts_of(it, value), site_of(a.get("at")) or site)


INTRINSICS: Table = {
    "unknown": (_unknown, tuple("abcdefgh")),
    "constant": (_constant, ("type",)),
    "is_tensor": (_is_tensor, ("value",)),
    "kind_of": (_kind_of, ("value",)),
    "counter": (_counter, ()),
    "certainly": (_certainly, ("condition",)),
    "located": (_located, ("value", "at")),
}
