"""Where a program starts: scripts, the console scripts of a project, and functions that train and that nobody calls."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from dpcheck.execution import calls, intrinsics
from dpcheck.execution.facts import NOTHING, Site
from dpcheck.execution.interpreter import Interpreter, OutOfBudgetError, StopIterationError
from dpcheck.execution.run import TrainingRun
from dpcheck.execution.values import Bound, Class, Const, Data, Function, Instance, ModuleValue, Scope, Value
from dpcheck.program import records as r

if TYPE_CHECKING:
    from dpcheck.program.link import Program, Unit

_BACKWARDS = ("backward", "manual_backward")
_DEEPEST_STACK = 12_000


def execute(program: Program, units: Sequence[Unit]) -> Iterator[TrainingRun]:
    """One record for each entry point in these files that runs data-parallel."""
    execution = Execution(program)
    for part in (execution.script, execution.functions):
        for unit in units:
            yield from part(unit)


class Execution:
    """Executes the entry points of a program: first its scripts, then the functions that no script reached."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._reached: set[int] = set()

    def script(self, unit: Unit) -> Iterator[TrainingRun]:
        """The run of a file as `python file` would run it, if it does something and runs data-parallel."""
        if unit.module is not None and is_script(unit.module):
            yield from self._kept(execute_script(self.program, unit))

    def functions(self, unit: Unit) -> Iterator[TrainingRun]:
        """The runs of the public functions and methods in a file that contain a backward and were not executed yet."""
        for owner, function in trainers(unit.module) if unit.module is not None else ():
            if id(function) not in self._reached:
                yield from self._kept(execute_function(self.program, unit, owner, function))

    def _kept(self, run: TrainingRun) -> Iterator[TrainingRun]:
        self._reached.update(run.reached)
        if run.is_data_parallel:
            yield run


def execute_script(program: Program, unit: Unit) -> TrainingRun:
    """Execute a file as the main module, as one rank of many."""
    it = Interpreter(program, Site(unit.display, 0))
    it.run.starts_group = True
    scope = Scope(unit, None)
    scope.names["__name__"] = Const("__main__")
    scope.names["__file__"] = Const(unit.display)
    it.modules[unit.display] = ModuleValue(unit, scope)
    return _run(it, lambda: it.execute_module(unit, scope))


def execute_function(program: Program, unit: Unit, owner: str | None, function: r.Function) -> TrainingRun:
    """Execute one function, or method of the class `owner`: its arguments unknown, the group started by somebody."""
    it = Interpreter(program, Site(unit.display, function.at))
    return _run(it, lambda: _call(it, unit, owner, function.name))


def _run(it: Interpreter, start: Callable[[], None]) -> TrainingRun:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, _DEEPEST_STACK))
    try:
        start()
    except (OutOfBudgetError, RecursionError):
        it.run.complete = False
    except StopIterationError:
        pass
    finally:
        sys.setrecursionlimit(limit)
    it.run.reached = frozenset(it.spent)
    return it.run


def is_script(module: r.Module) -> bool:
    """Does the module do something when it is run: a `__main__` block, or calls at its top level?"""
    return any(_acts(statement) for statement in module.body)


def _acts(statement: r.Stmt) -> bool:
    if isinstance(statement, r.If):
        return is_main_test(statement.test) or any(_acts(s) for s in (*statement.body, *statement.orelse))
    if isinstance(statement, (r.For, r.While, r.With)):
        return True
    return isinstance(statement, r.Do) and isinstance(statement.value, r.Call)


def is_main_test(test: r.Expr) -> bool:
    return (
        isinstance(test, r.Compare)
        and isinstance(test.left, r.Name)
        and test.left.id == "__name__"
        and isinstance(test.rights[0], r.Const)
        and test.rights[0].value == "__main__"
    )


def trainers(module: r.Module) -> Iterator[tuple[str | None, r.Function]]:
    """The public functions and methods that contain a backward, with the name of their class."""
    for statement in module.body:
        if isinstance(statement, r.Function) and not statement.name.startswith("_") and trains(statement):
            yield None, statement
        elif isinstance(statement, r.Class):
            for member in statement.body:
                if isinstance(member, r.Function) and not member.name.startswith("_") and trains(member):
                    yield statement.name, member


def trains(function: r.Function) -> bool:
    """Does the function itself call a backward?"""
    waiting: list[Any] = list(function.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, r.Call) and isinstance(node.func, r.Attr) and node.func.name in _BACKWARDS:
            return True
        if isinstance(node, tuple):
            waiting.extend(node)
        elif isinstance(node, msgspec.Struct):
            waiting.extend(getattr(node, field) for field in node.__struct_fields__)
    return False


def _call(it: Interpreter, unit: Unit, owner: str | None, name: str) -> None:
    """Call a function (or a method of a new object) with arguments of which nothing is known."""
    module = it.module(unit)
    site = it.run.entry
    if owner is None:
        target = it.force(it.module_attribute(module, name))
    else:
        cls = it.force(it.module_attribute(module, owner))
        if not isinstance(cls, Class):
            return
        made = calls.call(it, cls, _unknown_arguments(cls.lookup("__init__"), 1, site), {}, site)
        found = cls.lookup(name)
        if not isinstance(made, Instance) or found is None:
            return
        target = calls.bind(made, found)
    function = target.function if isinstance(target, Bound) else target
    calls.call(it, target, _unknown_arguments(function, 0 if owner is None else 1, site), {}, site)


def _unknown_arguments(function: Value | None, skipped: int, site: Site) -> list[Value]:
    if not isinstance(function, Function):
        return []
    params = [p for p in function.record.params if p.kind in ("pos", "any")][skipped:]
    return [
        intrinsics.chosen(default, site)
        if isinstance(default := function.defaults.get(p.name), Const)
        else default or Data(NOTHING)
        for p in params
    ]
