"""Attributes of tensors, arrays and foreign objects, read and written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpcheck.execution import expressions, gradients
from dpcheck.execution.facts import CONSTANT, INTEGER, Site, Source, SourceKind, replace, without_gradient
from dpcheck.execution.tensors.combining import unknown_result
from dpcheck.execution.tensors.conversion import restated
from dpcheck.execution.tensors.coupling import turned
from dpcheck.execution.tensors.operations import OPERATIONS, call
from dpcheck.execution.tensors.sizes import shape_of
from dpcheck.execution.values import TRUE, Builtin, Const, Data, Value

if TYPE_CHECKING:
    from dpcheck.execution.interpreter import Interpreter

_TRANSPOSED = {"T", "mT", "H"}
_PLAIN = {"device", "is_cuda", "layout", "name", "requires_grad", "is_leaf", "type"}

_OF_TEXT = {
    **dict.fromkeys("strip lstrip rstrip lower upper title replace format removeprefix removesuffix".split(), "text"),
    **dict.fromkeys("split rsplit splitlines partition rpartition".split(), "texts"),
}
"""What the methods of a text make of it: another text, or several."""
_OF_FILE = {**dict.fromkeys(("read", "readline"), "text"), "readlines": "texts"}
_METHODS = {"str": _OF_TEXT, "file": _OF_FILE}


def attribute(it: Interpreter, value: Data, name: str, site: Site) -> Value:
    """`value.name`: what a tensor has, a method, or something of which only the owner is known."""
    facts = value.facts
    if facts.parameter_of and name == "grad":
        return gradients.of_parameter(value, site)
    if facts.parameter_of and name == "requires_grad":
        it.record("is trained", site, facts.parameter_of)
        return TRUE  # a frozen one takes no part in what is asked of gradients
    if name == "shape":
        return shape_of(facts, site)
    if name == "ndim":
        if facts.ndim is not None:
            return Const(facts.ndim)
        own = facts.parameter_of or facts.gradient_of
        sources = frozenset((Source(SourceKind.PARAMETER, site),)) if own else frozenset()
        return Data(replace(INTEGER, sources=sources))
    if name == "data":
        if facts.parameter_of or facts.gradient_of or "held by" in value.state:
            return value  # what is written into it is written into the object that holds it
        return restated(value, without_gradient(facts), site)
    if name == "real":
        return value
    if name in _TRANSPOSED:
        axis = turned(facts) if name == "T" or facts.ndim == 2 else facts.axis
        return Data(replace(facts, lead=facts.elements, rest=facts.elements, axis=axis), site)
    if name == "dtype" and facts.type == "tensor":
        return Data(replace(CONSTANT, type=name, mask=facts.mask), site)
    if name in _PLAIN and facts.type == "tensor":
        return Data(replace(CONSTANT, type=""), site)
    if facts.type == "tensor" or (facts.type in ("number", "int", "float", "bool", "") and _is_operation(name)):
        return Builtin(name, lambda it, args, kwargs, where: call(it, name, [value, *args], kwargs, where))
    return _foreign_attribute(value, name, site)


def _is_operation(name: str) -> bool:
    return name in OPERATIONS or name.rstrip("_") in OPERATIONS


def _foreign_attribute(value: Data, name: str, site: Site) -> Value:
    """An attribute of something that was not read: the same value each time that it is asked for."""
    cached = value.state.get(f"attribute {name}")
    if isinstance(cached, Value):
        return cached
    facts = value.facts
    if facts.type != "str" and not facts.place.is_replicate:
        result = Data(unknown_result([facts]), site)  # a part of it is as unknown as the whole
    else:
        result = Data(replace(facts, parts=None), site)
    if "harmless" in value.state:
        result.state["harmless"] = True
    if name in _METHODS.get(facts.type, ()):
        result.state["makes"] = _METHODS[facts.type][name]
    value.state[f"attribute {name}"] = result
    return result


def set_attribute(it: Interpreter, owner: Data, name: str, value: Value, site: Site) -> None:
    """`owner.name = value`."""
    if name == "grad" and owner.facts.parameter_of:
        gradients.assigned(it, owner.facts, expressions.facts_of(it, value))
    elif name == "requires_grad" and owner.facts.parameter_of:
        it.record("requires grad", site, owner.facts.parameter_of, value=value)
    elif name != "data":
        it.trail.set(owner.state, f"attribute {name}", value)
    elif not owner.facts.parameter_of:
        it.trail.set(owner.state, "facts", replace(expressions.facts_of(it, value), grad=owner.facts.grad))
