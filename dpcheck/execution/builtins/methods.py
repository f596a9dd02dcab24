"""Methods of Python's own types: which function answers for `value.name`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dpcheck.execution import calls, expressions, tensors
from dpcheck.execution.builtins import mappings, sequences, strings
from dpcheck.execution.facts import NOTHING, Site
from dpcheck.execution.values import Builtin, Const, Data, Mapping, Sequence, Value

if TYPE_CHECKING:
    from dpcheck.execution.interpreter import Interpreter


def method(it: Interpreter, value: Value, name: str, site: Site) -> Value:
    """`value.name` of a value of Python's own types."""
    if isinstance(value, Const):
        return _of_constant(it, value, name, site)
    table: dict[str, Callable[..., Value]] = {}
    if isinstance(value, Mapping):
        table = mappings.METHODS
        if name not in table and name in value.entries:
            return value.entries[name]  # a batch or a configuration whose entries are attributes too
    elif isinstance(value, Sequence):
        table = sequences.METHODS
        if value.kind == "shape" and name == "numel":
            return Builtin(name, lambda it, args, kwargs, site: calls.element(it, value))
    function = table.get(name)
    if function is None:
        return Builtin(name, lambda it, args, kwargs, site: Data(NOTHING))
    return Builtin(name, lambda it, args, kwargs, site: function(it, value, args, kwargs, site))


def _of_constant(it: Interpreter, value: Const, name: str, site: Site) -> Value:
    if name == "value":
        return value  # a member of an enumeration
    if isinstance(value.value, str):
        return Builtin(name, lambda it, args, kwargs, site: strings.call_method(it, value, name, args, kwargs, site))
    if name in ("item", "tolist", "float", "int", "detach", "cpu", "numpy"):
        return Builtin(name, lambda it, args, kwargs, site: value)
    if value.value is None:
        return Data(NOTHING)
    return tensors.attribute(it, Data(expressions.facts_of(it, value), site), name, site)
