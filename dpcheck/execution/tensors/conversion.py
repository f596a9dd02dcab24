"""The same numbers in another form: another dtype, device or memory, without gradient, as a number of Python."""

from __future__ import annotations

from dpcheck.execution.facts import NOTHING, Facts, Site, replace, without_gradient
from dpcheck.execution.tensors import dtypes
from dpcheck.execution.tensors.operands import Operands, Operation
from dpcheck.execution.values import NONE, Const, Data, Value


def restated(value: Value | None, facts: Facts, site: Site) -> Data:
    """The value in another form: where it came from and what tests say of it stays."""
    if not isinstance(value, Data):
        return Data(facts, site)
    result = Data(facts, value.site)
    result.identity = value.identity
    return result


def _keep(given: Operands) -> Value:
    """Another dtype, memory or device."""
    value = given.first("input", "x")
    if isinstance(value, Const):
        return value
    facts = given.facts
    mask = dtypes.restated(given, facts)
    if mask != facts.mask:
        facts = replace(facts, mask=mask)
    result = Data(facts, value.site if isinstance(value, Data) and value.site is not None else given.site)
    if isinstance(value, Data) and facts.ndim == 0:
        result.identity = value.identity
    return result


def _same(given: Operands) -> Value:
    """The very same tensor."""
    value = given.first()
    return value if value is not None else Data(NOTHING)


def _detach(given: Operands) -> Value:
    return restated(given.first(), without_gradient(given.facts), given.site)


def _item(given: Operands) -> Value:
    value = given.first()
    if isinstance(value, Const):
        return value
    return restated(value, replace(without_gradient(given.facts), type="number", ndim=0), given.site)


def _copy(given: Operands) -> Value:
    """`copy_`: the numbers of another tensor."""
    other = given.at(1, "other")
    source = given.facts_of(other) if other is not None else NOTHING
    return given.result(replace(source, type="tensor"))


def _only_told(given: Operands) -> Value:
    """What tells torch how long to keep a tensor, and returns nothing."""
    return NONE


OPERATIONS: dict[str, Operation] = {
    **dict.fromkeys(
        "clone contiguous float double half bfloat16 long int short byte bool char type cpu astype to type_as round"
        " floor ceil dropout".split(),
        _keep,
    ),
    **dict.fromkeys("cuda pin_memory share_memory".split(), _same),
    **dict.fromkeys(["detach", "numpy", "data"], _detach),
    "item": _item,
    "copy": _copy,
    **dict.fromkeys(["retain_grad", "record_stream"], _only_told),
}
