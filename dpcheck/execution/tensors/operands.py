"""How an operation is asked for: what its operands are, by position and by name, and which dimensions it speaks of."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from dpcheck.execution import expressions
from dpcheck.execution.facts import NOTHING, Facts, Site
from dpcheck.execution.values import Const, Data, Sequence, Value

if TYPE_CHECKING:
    from dpcheck.execution.interpreter import Interpreter


class Operands(NamedTuple):
    """One call of an operation. `name` is the name it was called by, for those that answer to several."""

    it: Interpreter
    args: list[Value]
    kwargs: dict[str, Value]
    site: Site
    name: str

    def first(self, *names: str) -> Value | None:
        """The operand that a method has as its receiver, and that a function may be given under one of these names."""
        if self.args:
            return self.args[0]
        return next((self.kwargs[name] for name in names if name in self.kwargs), None)

    def at(self, index: int, name: str) -> Value | None:
        """The argument of this position or name."""
        if name in self.kwargs:
            return self.kwargs[name]
        return self.args[index] if index < len(self.args) else None

    def dim(self, index: int = 1) -> Value | None:
        """The argument that names dimensions, in torch's words or numpy's."""
        return self.at(index, "dim") or self.kwargs.get("axis")

    @property
    def facts(self) -> Facts:
        """What is known of the first operand."""
        value = self.first("input", "x", "a", "tensor", "self")
        return self.facts_of(value) if value is not None else NOTHING

    def facts_of(self, value: Value) -> Facts:
        return expressions.facts_of(self.it, value)

    def varying(self) -> list[Facts]:
        """What is known of each operand that is not a constant."""
        return [self.facts_of(value) for value in (*self.args, *self.kwargs.values()) if not isinstance(value, Const)]

    def result(self, facts: Facts) -> Data:
        """A new value, made here."""
        return Data(facts, self.site)

    def beside_receiver(self) -> Operands:
        """The operands of a method that takes nothing but a dtype and a device from its receiver."""
        return self._replace(args=self.args[1:])


Operation = Callable[[Operands], Value]


def dims(value: Value | None) -> list[int] | None:
    """The dimensions named by a `dim` argument; None when all or unknown ones are meant."""
    if isinstance(value, Const) and isinstance(value.value, int) and not isinstance(value.value, bool):
        return [value.value]
    if isinstance(value, Sequence) and value.items is not None:
        found = [v.value for v in value.items if isinstance(v, Const) and isinstance(v.value, int)]
        return found if len(found) == len(value.items) else None
    return None


def covers_all(facts: Facts, over: list[int]) -> bool:
    """Are these all the dimensions that there are?"""
    if facts.ndim is None:
        return False
    return len({d % facts.ndim if facts.ndim else 0 for d in over}) >= facts.ndim


def keeps_rows(facts: Facts, over: list[int]) -> bool:
    """Does the first dimension, one entry per example, survive a reduction over these?"""
    if 0 in over:
        return False
    return not (facts.ndim is not None and -facts.ndim in over)
