"""What an intrinsic is, and how it reads what it was given."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dpcheck.execution.facts import NOTHING, Site
from dpcheck.execution.values import Const, Data, Instance, Mapping, Value

if TYPE_CHECKING:
    from dpcheck.execution.interpreter import Interpreter

Arguments = dict[str, Value]
Intrinsic = Callable[["Interpreter", Arguments, Site], Value]
Table = dict[str, tuple[Intrinsic, tuple[str, ...]]]
"""Intrinsics by name, each with the names of its positional parameters."""


class Given(Arguments):
    """What an intrinsic was given, by name. What a wrong or half-read program leaves out is unknown."""

    def __missing__(self, name: str) -> Value:
        return Data(NOTHING)


def entries_of(value: Value | None) -> dict[str, Value]:
    """The entries of a dictionary of keyword arguments, as far as its keys are known."""
    return {str(key): entry for key, entry in value.entries.items()} if isinstance(value, Mapping) else {}


def site_of(value: Value | None) -> Site | None:
    """Where a value was made, if that is known."""
    return value.site if isinstance(value, (Const, Data, Instance)) else None
