"""Ways out that only some ranks take: `break`, `continue`, `return`, loops of unequal length, errors that are caught.

An "exit" event stands where a rank leaves, under the guards that decide it; a "rejoin" event where it meets the others
again. What lies between them happens on the ranks that stay.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from dpcheck.execution import expressions
from dpcheck.execution.builtins import exceptions
from dpcheck.execution.completion import Completion
from dpcheck.execution.facts import NOTHING, Difference, Facts, Site, SourceKind, differences, replace
from dpcheck.execution.run import Event, Guard, Loop
from dpcheck.execution.values import Builtin, Class, Const, Data, Foreign, Function, Sequence, Value, options
from dpcheck.program import records as r

if TYPE_CHECKING:
    from dpcheck.execution.interpreter import Frame, Interpreter


class Attempt:
    """The body of a `try` that has handlers, while it is executed.

    `differs`: why some ranks may raise an error in it and others not; from the event `first` on, what happens in it
    happens only on the ranks that raise none.
    """

    __slots__ = ("differs", "events", "first", "guards")

    def __init__(self, guards: int, events: int) -> None:
        self.guards = guards
        self.events = events
        self.first: int | None = None
        self.differs: tuple[Difference, ...] = ()

    def raises(self, differs: tuple[Difference, ...], events: int) -> None:
        if self.first is None:
            self.first = events
        self.differs = tuple(dict.fromkeys((*self.differs, *differs)))


# ---------------------------------------------------------------- leaving


def leave(it: Interpreter, how: str, at: int) -> None:
    """`break`, `continue` or `return`: noted where some ranks may take it and others not."""
    frame = it.frame
    if how == "return":
        scope: object = frame
        depth, left = frame.entered, tuple(frame.passes)
        frame.differs = tuple(dict.fromkeys((*frame.differs, *differences(g.facts for g in it.guards[depth:]))))
    elif frame.passes:
        scope = frame.passes[-1]
        depth, left = frame.passes[-1].guards, (frame.passes[-1],) if how == "break" else ()
    else:
        return
    _note(it, how, it.site(at), scope, depth, left)


def leave_process(it: Interpreter, raised: r.Expr | None, site: Site) -> None:
    """The process ends by an error that says how."""
    status = [arg.value for arg in raised.args] if isinstance(raised, r.Call) else []
    end_process(it, [expressions.evaluate(it, node) for node in status], site)


def end_process(it: Interpreter, status: list[Value], site: Site) -> None:
    """The process ends, and says that all is well: with another status, whoever started the ranks ends them all."""
    if all(isinstance(value, Const) and value.value in (None, 0) for value in status):
        _note(it, "exit", site, it, 0, tuple(it.loops))


def is_success(completion: Completion, events: Iterable[Event]) -> bool:
    """Has the process ended in a way that leaves the other ranks alone?"""
    return completion is Completion.EXIT and any(event.kind == "exit" and event.how == "exit" for event in events)


def leave_loop(it: Interpreter, loop: Loop, test: Value | None, facts: Facts) -> None:
    """The loop ends by its own condition, or with the last of what it iterates."""
    if loop.over is None and test is not None:
        it.record("bound", loop.site, None, loop=loop, test=test)
    if facts.differs:
        it.guards.append(Guard(loop.site, facts, False, test, object(), len(it.loops), len(it.frames)))
        _note(it, "while" if loop.over is None else "for", loop.site, loop, loop.guards, (loop,))
        it.guards.pop()


def _note(it: Interpreter, how: str, site: Site, scope: object, depth: int, left: tuple[Loop, ...]) -> None:
    deciding = tuple(guard for guard in it.guards[depth:] if guard.facts.differs)
    if deciding:
        event = it.record("exit", site, None, how=how, left=left, deciding=deciding)
        it.exits.append((event, scope))


def rejoin(it: Interpreter, scope: object, how: str = "") -> None:
    """The end of a function, a loop or (for those who `continue`) a pass: who left it goes on with the others."""
    if not it.exits:
        return
    left = [event for event, where in it.exits if where is scope and how in ("", event.how)]
    if left:
        it.exits = [(event, where) for event, where in it.exits if event not in left]
        it.record("rejoin", left[-1].site, None, exits=tuple(left))


def differs_here(it: Interpreter, frame: Frame) -> tuple[Difference, ...]:
    """Why ranks may take different ways between the beginning of the pass or function at hand and this point."""
    depth = frame.passes[-1].guards if frame.passes else frame.entered
    return differences(guard.facts for guard in it.guards[depth:])


def is_a_turn(it: Interpreter, test: Value | None) -> bool:
    """Is it asked whether the rank is among those whose pass of the loop this is (`for ranks in groups: if rank in
    ranks: …`)? Every rank has its turn, and none is left without what it gets there.
    """
    made = test.made if isinstance(test, Data) and it.frame.passes else None
    if made is None or made[0] not in ("in", "=="):
        return False
    for number, among in (made[1:], made[:0:-1]):
        if isinstance(number, Data) and number.identity in ("rank", "local rank"):
            if isinstance(among, Sequence):
                return among.items is None or not all(isinstance(item, Const) for item in among.items)
            return isinstance(among, Data) and (made[0] == "in" or among.facts.has(SourceKind.COUNTER))
    return False


# ---------------------------------------------------------------- errors

_ALIKE = frozenset(
    (
        "StopIteration",
        "StopAsyncIteration",
        "KeyboardInterrupt",
        "GeneratorExit",
        "SystemExit",
        "ImportError",
        "ModuleNotFoundError",
        "AttributeError",
        "NameError",
        "NotImplementedError",
    )
)
"""Errors that say nothing of the examples: all ranks raise them, or the run ends."""
_OF_MEMORY = frozenset(("RuntimeError", "OutOfMemoryError"))
"""What torch raises when memory runs out, on the rank where it does."""
_SAFE = ("torch", "numpy", "math", "accelerate", "lightning", "pytorch_lightning")
"""Libraries whose functions fail on one rank's examples for want of memory alone."""


def note_call(it: Interpreter, function: Value, given: list[Value]) -> None:
    """Inside a `try`: a call that may fail because of the examples that this rank has."""
    for one in options(function):
        if isinstance(one, Function):
            unit = one.scope.unit
            fails = unit.is_stub and unit.name.partition(".")[0] not in _SAFE
        else:
            fails = isinstance(one, Foreign) or (isinstance(one, Builtin) and one.name in ("int", "float"))
        if fails:
            differs = differences(expressions.facts_of(it, value) for value in given)
            own = tuple(why for why in differs if why.kind is SourceKind.LOADER)
            if own:
                it.attempts[-1].raises(own, len(it.run.events))


def note_raise(it: Interpreter) -> None:
    """Inside a `try`: an error that is raised on some ranks."""
    attempt = it.attempts[-1]
    differs = differences(guard.facts for guard in it.guards[attempt.guards :])
    if differs:
        attempt.raises(differs, len(it.run.events))


def catch(it: Interpreter, attempt: Attempt, caught: Value | None, site: Site) -> bool:
    """Begin a handler that only some ranks may come to: push the guard that says so. Was there one?"""
    names = {_name(one) for value in _classes(caught) for one in options(value)}
    if names & _OF_MEMORY:
        _runs_out_of_memory(it, attempt)
    if not attempt.differs or attempt.first is None or (names and names <= _ALIKE):
        return False
    facts = replace(NOTHING, differs=attempt.differs)
    it.guards.append(Guard(site, facts, True, None, object(), len(it.loops), len(it.frames)))
    skipped = tuple(it.run.events[attempt.first :])
    it.record("caught", site, None, skipped=skipped, deciding=(it.guards[-1],))
    return True


def _runs_out_of_memory(it: Interpreter, attempt: Attempt) -> None:
    """A step in the body of the `try` may be too much for the memory of one rank."""
    for index, event in enumerate(it.run.events[attempt.events :], attempt.events):
        if event.kind in ("forward", "backward"):
            attempt.raises((Difference(SourceKind.LOADER, event.site),), index)
            return


def _name(error: Value) -> str:
    if isinstance(error, (Foreign, Class)):
        return error.name.rpartition(".")[2]
    return exceptions.name_of(error)


def _classes(caught: Value | None) -> list[Value]:
    if isinstance(caught, Sequence):
        return caught.items or []
    return [caught] if caught is not None else []
