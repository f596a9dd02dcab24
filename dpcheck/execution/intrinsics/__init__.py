"""What the framework stubs cannot say in Python: rank and world, collectives, gradients, random states, the record.

A stub imports these by name from `dpcheck_intrinsics`. `docs/stubs.md` describes each for those who write stubs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpcheck.execution.facts import Site
from dpcheck.execution.intrinsics import (
    autograd,
    callbacks,
    collectives,
    data,
    draws,
    knowledge,
    losses,
    modules,
    objects,
    operations,
    ranks,
    settings,
    updates,
)
from dpcheck.execution.intrinsics.arguments import Given, Table
from dpcheck.execution.values import Builtin, Value

if TYPE_CHECKING:
    from dpcheck.execution.interpreter import Interpreter

_PARTS = (
    ranks,
    settings,
    modules,
    autograd,
    updates,
    collectives,
    draws,
    data,
    operations,
    losses,
    knowledge,
    callbacks,
    objects,
)
INTRINSICS: Table = {name: entry for part in _PARTS for name, entry in part.INTRINSICS.items()}


def find(name: str) -> Value:
    """The intrinsic of that name as a value that stubs can call."""
    function, names = INTRINSICS[name]

    def call(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
        given = Given(zip(names, args, strict=False))
        given.update({k: v for k, v in kwargs.items() if k != "%other"})
        return function(it, given, site)

    return Builtin(name, call)
