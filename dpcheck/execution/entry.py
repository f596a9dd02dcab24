"""Where a program starts: scripts, the console scripts of a project, and functions that train and that nobody calls."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from dpcheck.execution import calls
from dpcheck.execution.completion import PathEndedError
from dpcheck.execution.facts import NOTHING, Site
from dpcheck.execution.interpreter import Interpreter, OutOfBudgetError, StopIterationError
from dpcheck.execution.run import TrainingRun
from dpcheck.execution.values import Bound, Class, Const, Data, Function, Instance, ModuleValue, Scope, Value, chosen
from dpcheck.program import records as r

if TYPE_CHECKING:
    from dpcheck.program.link import Program, Unit

_BACKWARDS = ("backward", "manual_backward")
_DEEPEST_STACK = 12_000


def execute(program: Program, units: Sequence[Unit]) -> Iterator[TrainingRun]:
    """One record for each entry point in these files that runs data-parallel."""
    for part in Execution(program).parts:
        for unit in units:
            yield from part(unit)


class Execution:
    """Executes the entry points of a program: first its scripts, then the functions that no script reached.

    `parts` are to be asked for every file in this order. `unfinished` are the runs that came to no end and showed
    nothing data-parallel before that: nobody knows whether they are.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.parts = (self.script, self.console_scripts, self.functions)
        self.unfinished: list[TrainingRun] = []
        self._reached: set[int] = set()

    def script(self, unit: Unit) -> Iterator[TrainingRun]:
        """The run of a file as `python file` would run it, if it does something and runs data-parallel."""
        if unit.module is not None and is_script(unit.module):
            yield from self._kept(execute_script(self.program, unit))

    def console_scripts(self, unit: Unit) -> Iterator[TrainingRun]:
        """The runs of the functions in a file that installed scripts call, as far as nothing has executed them yet."""
        for name in self.program.console_scripts.get(unit, ()):
            run = execute_console_script(self.program, unit, name, self._reached)
            if run is not None:
                yield from self._kept(run)

    def functions(self, unit: Unit) -> Iterator[TrainingRun]:
        """The runs of the public functions and methods in a file that contain a backward and were not executed yet."""
        for owner, function in trainers(unit.module) if unit.module is not None else ():
            if id(function) not in self._reached:
                yield from self._kept(execute_function(self.program, unit, owner, function))

    def _kept(self, run: TrainingRun) -> Iterator[TrainingRun]:
        self._reached.update(run.reached)
        if run.is_data_parallel:
            yield run
        elif not run.complete:
            self.unfinished.append(run)


def execute_script(program: Program, unit: Unit) -> TrainingRun:
    """Execute a file as the main module, as one rank of many."""
    it = Interpreter(program, Site(unit.display, 0))
    it.run.starts_group = True
    scope = Scope(unit, None)
    scope.names["__name__"] = Const("__main__")
    scope.names["__file__"] = Const(unit.display)
    it.modules[unit.display] = ModuleValue(unit, scope)
    return _run(it, lambda: it.execute_module(unit, scope))


def execute_console_script(
    program: Program, unit: Unit, name: str, reached: Collection[int] = frozenset()
) -> TrainingRun | None:
    """Execute a function of a file as an installed script does, unless it is one of those that were `reached`."""
    it = Interpreter(program, Site(unit.display, 0))
    it.run.starts_group = True
    written = definition(unit.module, name)
    called: list[r.Record] = []

    def start() -> None:
        target: Value = it.module(unit)
        for part in name.split("."):
            target = calls.attribute(it, target, part, it.run.entry)
        function = target.function if isinstance(target, Bound) else target
        record: r.Record | None = written
        if record is None and isinstance(function, Function) and not function.scope.unit.is_stub:
            record = function.record  # imported from another file
            it.run.entry = Site(function.scope.unit.display, record.at)
        if record is not None and id(record) not in reached:
            called.append(record)
            calls.call(it, target, [], {}, it.run.entry)

    if written is not None:
        if id(written) in reached:
            return None
        it.run.entry = Site(unit.display, written.at)
    run = _run(it, start)
    return run if called else None


def definition(module: r.Module | None, name: str) -> r.Function | None:
    """The function `name`, or method `Class.name`, at the top level of a file."""
    body: Sequence[r.Stmt] = module.body if module is not None else ()
    *classes, last = name.split(".")
    for each in classes:
        body = next((s.body for s in body if isinstance(s, r.Class) and s.name == each), ())
    return next((s for s in body if isinstance(s, r.Function) and s.name == last), None)


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
    except (StopIterationError, PathEndedError):
        pass
    finally:
        sys.setrecursionlimit(limit)
    it.run.reached = frozenset(it.spent)
    it.run.leave_out_one_process()
    return it.run


def is_script(module: r.Module) -> bool:
    """Does the module do something when it is run: a `__main__` block, or calls at its top level?"""
    return _acts(module.body) or any(_raises_what_is_called(statement) for statement in module.body)


def _raises_what_is_called(statement: r.Stmt) -> bool:
    """Is it `raise SystemExit(main())`?"""
    raised = statement.value if isinstance(statement, r.Raise) else None
    return isinstance(raised, r.Call) and any(isinstance(arg.value, r.Call) for arg in raised.args)


def _acts(statements: Sequence[r.Stmt]) -> bool:
    waiting = list(statements)  # no recursion: `elif` chains nest a thousand deep
    while waiting:
        statement = waiting.pop()
        calls_something = isinstance(statement, r.Do) and isinstance(statement.value, r.Call)
        if isinstance(statement, r.If) and not is_main_test(statement.test):
            waiting += (*statement.body, *statement.orelse)
        elif calls_something or isinstance(statement, (r.If, r.For, r.While, r.With)):
            return True
    return False


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
        chosen(default, site)
        if isinstance(default := function.defaults.get(p.name), Const)
        else default or Data(NOTHING)
        for p in params
    ]
