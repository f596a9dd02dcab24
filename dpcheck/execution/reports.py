"""What a run tells people: numbers that differ between the ranks, printed, logged or plotted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dpcheck.execution.facts import Site
from dpcheck.execution.loading import leaves
from dpcheck.execution.values import Const, Data, Mapping, Sequence, Value, options

if TYPE_CHECKING:
    from dpcheck.execution.interpreter import Interpreter

_WHOSE = ("rank", "local", "this process", "worker")
"""Words by which a text says that a number is not everyone's."""


def told(it: Interpreter, values: list[Value], site: Site) -> None:
    """Record a report of these values, if one of them differs between the ranks."""
    facts = tuple(each for value in values for each in leaves(value))
    if any(each.differs for each in facts):
        says = any(word in text.lower() for value in values for text in _texts(value) for word in _WHOSE)
        it.record("report", site, None, facts=facts, says_whose=says)


def _texts(value: Value | None) -> Iterator[str]:
    """The texts that are written around a value, and the names that it goes by."""
    for one in options(value):
        if isinstance(one, Const):
            yield str(one.value)
        elif isinstance(one, Data) and isinstance(one.identity, tuple):
            yield from (part for part in one.identity if isinstance(part, str))
        elif isinstance(one, Mapping):
            yield from (str(key) for key in one.entries)
        elif isinstance(one, Sequence):
            for item in one.items or []:
                yield from _texts(item)
