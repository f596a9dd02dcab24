"""Texts that are known: their methods and their characters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpcheck.execution import calls, expressions, tensors
from dpcheck.execution import facts as facts_
from dpcheck.execution.builtins import iteration, sequences
from dpcheck.execution.facts import CONSTANT, NOTHING, Site, replace
from dpcheck.execution.values import NONE, Const, Data, Sequence, Value

if TYPE_CHECKING:
    from dpcheck.execution.interpreter import Interpreter


def call_method(
    it: Interpreter, value: Const, name: str, args: list[Value], kwargs: dict[str, Value], site: Site
) -> Value:
    """`value.name(*args, **kwargs)` of a text that is known: exact where its arguments are known and it stays short."""
    if name == "join" and args:
        return _joined(it, value, args[0], site)
    plain = [a.value for a in args if isinstance(a, Const)]
    named = {key: a.value for key, a in kwargs.items() if isinstance(a, Const)}
    known = len(plain) == len(args) and len(named) == len(kwargs)
    if known and _is_handy(value.value, name, [*plain, *named.values()]):
        return _carried_out(value.value, name, plain, named)
    facts = tensors.elementwise([expressions.facts_of(it, a) for a in (*args, *kwargs.values())] or [CONSTANT])
    kind = "bool" if name in ("startswith", "endswith") else "str"
    return Data(replace(facts, type=kind, grad=False, terms=()), site)


def _joined(it: Interpreter, value: Const, parts: Value, site: Site) -> Value:
    known = iteration.exact_items(parts)
    texts = [p.value for p in known or () if isinstance(p, Const) and isinstance(p.value, str)]
    length = sum(len(text) + len(value.value) for text in texts)
    if known is not None and len(texts) == len(known) and length <= expressions.LONGEST_TEXT:
        return Const(value.value.join(texts))
    facts = expressions.facts_of(it, calls.element(it, parts))
    return Data(replace(facts_.without_gradient(facts), type="str"), site)


def _carried_out(text: str, name: str, args: list[Any], kwargs: dict[str, Any]) -> Value:
    try:
        result = getattr(text, name)(*args, **kwargs)
    except Exception:
        return Data(NOTHING)
    if isinstance(result, (list, tuple)):
        kind = "list" if isinstance(result, list) else "tuple"
        return Sequence([Const(part) for part in result[: sequences.LONGEST_EXACT]], kind)
    return Const(result) if isinstance(result, (str, int, bool, float, bytes)) else Data(NOTHING)


def _is_handy(text: str, name: str, values: list[Any]) -> bool:
    """Is what the method makes of a text short, whatever somebody wrote?"""
    if name == "format" and not expressions.is_plain_format(text):
        return False
    length = len(text) + 1
    for value in values:
        length *= len(value) + 1 if isinstance(value, str) else 1
    return length <= expressions.LONGEST_TEXT and all(not isinstance(v, int) or v < 1000 for v in values)


def get_item(text: str, index: Value, site: Site) -> Value:
    """`text[index]`; past its end it is None."""
    if isinstance(index, Const) and isinstance(index.value, int):
        return Const(text[index.value]) if -len(text) <= index.value < len(text) else NONE
    bounds = index.items if isinstance(index, Sequence) and index.kind == "slice" else None
    if bounds and all(isinstance(b, Const) and isinstance(b.value, (int, type(None))) for b in bounds):
        lower, upper, step = (b.value for b in bounds if isinstance(b, Const))
        return Const(text[lower:upper:step]) if step != 0 else NONE
    return Data(replace(CONSTANT, type="str"), site)
