"""Which tensors are boolean: those alone select when they index; all others pick one entry for each of theirs."""

from __future__ import annotations

from dpcheck.execution import expressions
from dpcheck.execution.facts import Facts
from dpcheck.execution.tensors.operands import Operands
from dpcheck.execution.values import Builtin, Const, Data, Value

_DTYPES = frozenset(
    "float16 bfloat16 float32 float64 half float double int8 int16 int32 int64 short int long uint8 uint16 uint32"
    " uint64 complex64 complex128".split()
)
_BOOLEAN = frozenset("bool bool_ ?".split())
_OF_DTYPE = "dtype"
"""The type of the value of an attribute `dtype`."""

_BY_NAME = {**dict.fromkeys("bool byte".split(), True)}
_BY_NAME.update(dict.fromkeys("float double half bfloat16 long int short char".split(), False))


def is_boolean(dtype: Value | None) -> bool | None:
    """Is this the boolean dtype? None where it is no dtype, or not known to be one."""
    if isinstance(dtype, Const) and isinstance(dtype.value, str):
        name = dtype.value.rpartition(".")[2]
        return True if name in _BOOLEAN else False if name in _DTYPES or name.endswith("Tensor") else None
    if isinstance(dtype, Builtin):
        return True if dtype.name in _BOOLEAN else False if dtype.name in _DTYPES else None
    if isinstance(dtype, Data) and dtype.facts.type == _OF_DTYPE:
        return dtype.facts.mask
    return None


def restated(given: Operands, facts: Facts) -> bool:
    """Is the tensor a mask after a method that gives it another dtype, memory or device?"""
    if given.name in _BY_NAME:
        return _BY_NAME[given.name]
    if given.name == "type_as":
        other = given.at(1, "other")
        return other is not None and given.facts_of(other).mask
    dtypes = [given.kwargs["dtype"]] if "dtype" in given.kwargs else given.args[1:]
    if given.name in ("to", "type", "astype"):
        for value in dtypes:
            if isinstance(value, Data) and value.facts.type == "tensor":
                return value.facts.mask
            known = is_boolean(value)
            if known is not None:
                return known
        if given.name != "to" and dtypes:
            return False  # some dtype, and it is not known which
    return facts.mask


def made(given: Operands, default: bool) -> bool:
    """Is the tensor a mask that is made with this `dtype`, or with none?"""
    asked = given.kwargs.get("dtype")
    if asked is None or (isinstance(asked, Const) and asked.value is None):
        return default
    return is_boolean(asked) is True


def is_truth(given: Operands, value: Value) -> bool:
    """Is it a truth value, or a tensor of them?"""
    facts = expressions.facts_of(given.it, value)
    return facts.mask or facts.type == "bool"
