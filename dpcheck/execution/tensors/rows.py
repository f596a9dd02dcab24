"""One into many: the rows of a tensor one by one, chunks of rows, lists of numbers."""

from __future__ import annotations

from dpcheck.execution.facts import EVEN, INTEGER, Facts, Site, replace, without_gradient
from dpcheck.execution.tensors.combining import unknown_result
from dpcheck.execution.tensors.operands import Operands, Operation
from dpcheck.execution.tensors.sizes import count_facts
from dpcheck.execution.values import Const, Data, Sequence, Value


def row(value: Data, site: Site) -> Data:
    """One element of an iteration over a tensor, or of an unknown iterable."""
    facts = value.facts
    if facts.type == "tensor":
        return Data(row_facts(facts, facts.ndim - 1 if facts.ndim else facts.ndim), site)
    if facts.parts:
        return Data(facts.parts[0], site)
    if facts.type == "file":
        return Data(replace(facts, type="str"), site)  # a line of it
    return Data(unknown_result([facts]) if facts.place.is_unknown else replace(facts, parts=None), site)


def row_facts(facts: Facts, ndim: int | None) -> Facts:
    """The facts of one row of a tensor."""
    return replace(facts, lead=facts.rest, rest=EVEN, ndim=ndim, parts=None, permutation=False)


def _chunk(given: Operands) -> Value:
    """chunk, split: each part is as the whole."""
    part = replace(given.facts, parts=None)
    count = given.at(1, "chunks")
    known: int | None = None
    if isinstance(count, Sequence) and count.items is not None:
        known = len(count.items)
    elif isinstance(count, Const) and isinstance(count.value, int) and 0 < count.value <= 8 and given.name == "chunk":
        known = count.value
    if known is not None:
        return Sequence([given.result(part) for _ in range(known)], "tuple")
    parts = Sequence(None, "tuple", given.result(part), length=INTEGER)
    if given.name != "split":
        parts.state["chunks"] = given.first()
    return parts


def _unbind(given: Operands) -> Value:
    value, facts = given.first(), given.facts
    if facts.parts is not None:
        return Sequence([given.result(part) for part in facts.parts], "tuple")
    one = row(value, given.site) if isinstance(value, Data) else given.result(facts)
    return Sequence(None, "tuple", one, count_facts(facts, facts.lead))


def _tolist(given: Operands) -> Value:
    value, facts = given.first(), given.facts
    if facts.ndim == 0:
        return given.result(replace(without_gradient(facts), type="number"))
    if facts.parts is not None:
        return Sequence([given.result(part) for part in facts.parts])
    one = row(value, given.site) if isinstance(value, Data) else None
    return Sequence(None, "list", one, count_facts(facts, facts.lead))


OPERATIONS: dict[str, Operation] = {
    **dict.fromkeys("chunk split tensor_split array_split".split(), _chunk),
    "unbind": _unbind,
    **dict.fromkeys(["tolist", "list"], _tolist),
}
