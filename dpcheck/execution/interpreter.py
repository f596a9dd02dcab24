"""Executes a linked program abstractly, as one rank of many: statements, branches and loops.

Expressions are in `expressions`, calls and attributes in `calls`. Nothing here knows a library: what torch and the
frameworks do is written in `dpcheck/frameworks/` and executed like the user's code, down to the `intrinsics`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import time
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Sequence as Many
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from dpcheck.execution import calls, exits, expressions, intrinsics, randomness
from dpcheck.execution import facts as facts_
from dpcheck.execution.builtins import exceptions, iteration
from dpcheck.execution.completion import Completion, PathEndedError
from dpcheck.execution.facts import NOTHING, Difference, Site, Source, SourceKind
from dpcheck.execution.run import TRACED, Event, Guard, Loop, TrainingRun, Unknown
from dpcheck.execution.trail import Mark, Trail, Writes, decided, differing, join
from dpcheck.execution.values import (
    NONE,
    Builtin,
    Class,
    Const,
    Data,
    Foreign,
    Function,
    Instance,
    Lazy,
    Mapping,
    ModuleValue,
    Scope,
    Sequence,
    Store,
    Value,
)
from dpcheck.program import records as r

if TYPE_CHECKING:
    from dpcheck.program.link import Program, Unit

_MOST_STEPS = 500_000
_MOST_SECONDS = 8.0
_LONGEST_UNROLL = 12
_MOST_OBJECTS = 40


class OutOfBudgetError(Exception):
    """The entry point takes more steps than are allowed; what was recorded so far stands, as incomplete."""


class StopIterationError(Exception):
    """The body of a loop was left while the generator that feeds it stands at a `yield`; `loop` is the one to end."""

    def __init__(self, loop: Loop) -> None:
        super().__init__()
        self.loop = loop


class Departure(NamedTuple):
    """A path that left a block by `completion` while another went on: what it wrote since `mark`.

    `differs`: why some ranks take it and others do not.
    """

    completion: Completion
    writes: Writes
    mark: Mark
    differs: tuple[Difference, ...] = ()


class Arm(NamedTuple):
    """One side of a condition: how it ended, what it wrote and what was recorded on it."""

    completion: Completion
    writes: Writes
    guard: Guard
    events: list[Event]


class Frame:
    """A running function, class body or module. `user_site`: the call in the user's code that led into a library."""

    __slots__ = (
        "breaks", "deciding", "differs", "entered", "function", "guarded", "left", "on_yield", "owner", "passes",
        "path", "receiver", "returns", "scope", "turns", "unit", "user_site",
    )  # fmt: skip

    def __init__(self, unit: Unit, scope: Scope, user_site: Site | None, function: Function | None = None) -> None:
        self.unit = unit
        self.scope = scope
        self.user_site = user_site
        self.function = function
        self.owner: Class | None = function.owner if function else None
        self.receiver: Value | None = None
        self.returns: list[Value] = []
        self.deciding: dict[int, tuple[Guard, ...]] = {}  # the guards under which each value is returned
        self.left: list[Departure] = []
        # The calls that led here, and the turns that each was made in; last the site of this one, None if it is none.
        self.path: tuple[Any, ...] = ()
        self.turns: list[int] = []  # of the loops under way that are executed turn by turn
        self.guarded = 0  # so many bodies of `try` are under way
        self.breaks = False  # was the loop under way left by a break on some path?
        self.passes: list[Loop] = []  # the loops under way, also those that are executed turn by turn
        self.entered = 0  # so many guards stood when it was called
        self.differs: tuple[Difference, ...] = ()  # why ranks return from different places
        self.on_yield: Callable[[Value], Value] | None = None


class Narrowing(NamedTuple):
    """What a test says of a variable on one of its sides."""

    node: r.Expr
    value: Value


def _remaining(guard: Guard, gone: list[Arm]) -> Guard:
    """The condition on which the rest is executed. Where the others end with an error, no rank is left without it:
    whoever started the ranks then ends all of them.
    """
    if all(arm.completion.is_end and not exits.is_success(arm.completion, arm.events) for arm in gone):
        return dataclasses.replace(guard, facts=facts_.replace(guard.facts, differs=()))
    return guard


class Interpreter:
    def __init__(self, program: Program, entry: Site) -> None:
        self.program = program
        self.run = TrainingRun(program, entry)
        self.trail = Trail()
        self.frames: list[Frame] = []
        self.modules: dict[str, ModuleValue] = {}
        self.guards: list[Guard] = []
        self.exits: list[tuple[Event, object]] = []  # those that have left what is under way, and what that is
        self.attempts: list[exits.Attempt] = []  # the bodies of `try` under way
        self.undecided: list[int] = []  # of each side of a condition under way, how many events came before it
        self.loops: list[Loop] = []
        self.fetching: list[Loop] = []  # the loops that are getting their next element, not executing their body
        self.assumed: dict[object, bool] = {}
        self.unified: dict[object, Value] = {}
        self.rehearsals = 0
        self.unread_calls = 0
        self.steps = 0
        self.deadline = time.process_time() + _MOST_SECONDS
        self.machine = Store()
        self.building: list[tuple[Instance, randomness.RandomState, list[randomness.RandomState]]] = []
        self.calling: list[Value] = []
        self.hooks: list[tuple[Data, Value, bool]] = []
        self.builtins: dict[str, Value] = {}
        self.exports: dict[str, frozenset[str]] = {}
        self.spent: dict[int, list[int]] = {}  # calls and steps of each function
        self.seedings = 0  # how often generators were seeded, perhaps
        self.seeders: set[int] = set()  # the functions in which that happened

    # ------------------------------------------------------------ where we are

    @property
    def frame(self) -> Frame:
        return self.frames[-1]

    @property
    def path(self) -> tuple[Any, ...]:
        """Which execution of the code at hand this is. Passes of a loop that stand for all others are one."""
        frame = self.frames[-1] if self.frames else None
        return (frame.path, *frame.turns) if frame is not None else ()

    def each(self, items: Iterable[Value], take: Callable[[Value], Value]) -> list[Value]:
        """What `take` makes of the items, each in a turn of its own."""
        turns = self.frames[-1].turns if self.frames else []
        turns.append(0)
        made: list[Value] = []
        try:
            for turns[-1], item in enumerate(items):
                made.append(take(item))
        finally:
            turns.pop()
        return made

    def site(self, at: int) -> Site:
        """The place of a record of the running function; inside a library, the user's call that led there."""
        frame = self.frames[-1]
        if frame.unit.is_stub and frame.user_site is not None:
            return frame.user_site
        return Site(frame.unit.display, at)

    def record(self, kind: str, site: Site, subject: Any = None, **details: Any) -> Event:
        if kind == "iterate":
            details["fetching"] = tuple(self.fetching)
        elif kind in TRACED:
            details["calls"] = tuple(frame.path[-1] if frame.path else None for frame in self.frames)
        event = Event(kind, site, subject, details, tuple(self.loops), tuple(self.guards), len(self.run.events))
        self.run.events.append(event)
        return event

    def note_unknown(self, reason: str, site: Site) -> None:
        if not self.rehearsals:
            known = self.run.unknowns.get(reason)
            self.run.unknowns[reason] = Unknown(1, site) if known is None else Unknown(known.times + 1, known.first)

    @property
    def steps_left(self) -> int:
        return _MOST_STEPS - self.steps

    def count_step(self) -> None:
        self.steps += 1
        if self.steps > _MOST_STEPS or (not self.steps & 4095 and time.process_time() > self.deadline):
            self.run.complete = False
            raise OutOfBudgetError

    # ------------------------------------------------------------ modules

    def module(self, unit: Unit) -> ModuleValue:
        """The module of a file, executed when it is first asked for."""
        found = self.modules.get(unit.display)
        if found is not None:
            return found
        scope = Scope(unit, None)
        value = ModuleValue(unit, scope)
        self.modules[unit.display] = value
        scope.names["__name__"] = Const(unit.name)
        scope.names["__file__"] = Const(unit.display)
        if self.load(unit) is not None:
            self.execute_module(unit, scope)
        return value

    def execute_module(self, unit: Unit, scope: Scope) -> None:
        loops, guards, self.loops, self.guards = self.loops, self.guards, [], []
        user_site = self.site(0) if self.frames and unit.is_stub else None
        self.frames.append(Frame(unit, scope, user_site))
        try:
            assert unit.module is not None
            self.block(unit.module.body)
        finally:
            self.frames.pop()
            self.loops, self.guards = loops, guards

    def force(self, value: Value) -> Value:
        """The value of an imported name."""
        seen: list[Value] = []
        while isinstance(value, Lazy):
            if value in seen:
                # Two modules import the name from each other: it comes from nowhere that was read.
                return Foreign(f"{value.unit.name}.{value.name}")
            seen.append(value)
            module = self.module(value.unit)
            if value.name is None:
                return module
            found = self.module_attribute(module, value.name)
            if not isinstance(found, Lazy):
                module.scope.names.setdefault(value.name, found)
            value = found
        return value

    def starred(self, scope: Scope, name: str) -> Value | None:
        """A name that a star import brings. The modules are not executed to see whose it is."""
        if name.startswith("_"):
            return None
        for unit in scope.stars:
            if name in self.exported(unit, ()):
                found = Lazy(unit, name)
                scope.names[name] = found
                return found
        return None

    def module_names(self, module: ModuleValue) -> Mapping:
        """`module.__dict__`."""
        names = {name: Lazy(module.unit, name) for name in sorted(self.exported(module.unit, ()))}
        return Mapping(dict(names))

    def exported(self, unit: Unit, path: tuple[Unit, ...]) -> frozenset[str]:
        """The names that the top level of a file binds, star imports included."""
        known = self.exports.get(unit.display)
        if known is None:
            names: set[str] = set()
            if unit not in path and self.load(unit) is not None and unit.module is not None:
                for starred in bound_names(unit.module.body, names):
                    inner = self.program.find(unit, starred.module, starred.level)
                    if inner is not None:
                        names |= self.exported(inner, (*path, unit))
            known = self.exports[unit.display] = frozenset(names)
        return known

    def load(self, unit: Unit) -> r.Module | None:
        """The lowered file. Reading it takes nothing from the time that executing may take."""
        started = time.process_time()
        module = unit.module
        self.deadline += time.process_time() - started
        return module

    def module_attribute(self, module: ModuleValue, name: str) -> Value:
        found: Value | None = module.scope.names.get(name)
        if found is not None:
            return found
        starred = self.starred(module.scope, name)
        if starred is not None:
            return starred
        child = self.program.child(module.unit, name)
        if child is not None:
            return self.module(child)
        fallback = module.scope.names.get("__getattr__")
        if fallback is not None:
            with contextlib.suppress(PathEndedError), self.alternative():
                return calls.call(self, fallback, [Const(name)], {}, self.site(0))
        return Foreign(f"{module.unit.name}.{name}")

    # ------------------------------------------------------------ statements

    def block(self, statements: Many[r.Stmt]) -> Completion:
        departed = len(self.frame.left)
        for statement in statements:
            try:
                completion = _STATEMENTS[type(statement)](self, statement)
            except PathEndedError as ended:
                completion = ended.completion
            if completion is not Completion.NORMAL:
                return self._left_by(completion, departed)
        return Completion.NORMAL

    def _left_by(self, completion: Completion, departed: int) -> Completion:
        """How a block is left whose last path is left by `completion`, and others were before, from `departed` on."""
        departures = self.frame.left[departed:]
        kinds = {departure.completion for departure in departures}
        if not completion.is_end:
            onward = kinds & {Completion.CONTINUE, Completion.BREAK}
            return foremost(onward) if completion is Completion.RETURN and onward else completion
        caught = self.frame.guarded and completion is not Completion.EXIT
        if not departures or caught or self.frame.on_yield is not None:
            return completion
        # Nothing of the path that ended is seen by what follows: it follows the others.
        del self.frame.left[departed:]
        arms: list[Writes] = []
        for departure in reversed(departures):
            later = self.trail.undo(departure.mark)
            self.trail.merge([later, departure.writes] if arms else [departure.writes])
            arms.append(departure.writes)
        return foremost(kinds)

    def evaluate(self, node: r.Expr) -> Value:
        return expressions.evaluate(self, node)

    def do(self, node: r.Do) -> Completion:
        self.evaluate(node.value)
        return Completion.NORMAL

    def assign_statement(self, node: r.Assign) -> Completion:
        if node.value is None:
            if self.frame.function is None and isinstance(node.targets[0], r.Name) and node.annotation is not None:
                expressions.note_annotation(self, node.targets[0].id, node.annotation)
            return Completion.NORMAL
        value = self.evaluate(node.value)
        if self.frame.function is None and isinstance(node.targets[0], r.Name) and node.annotation is not None:
            expressions.note_annotation(self, node.targets[0].id, node.annotation)
        for target in node.targets:
            expressions.assign(self, target, value)
        return Completion.NORMAL

    def update_statement(self, node: r.Update) -> Completion:
        expressions.update(self, node)
        return Completion.NORMAL

    def return_statement(self, node: r.Return) -> Completion:
        value = self.evaluate(node.value) if node.value is not None else NONE
        self.frame.returns.append(value)
        self.frame.deciding[id(value)] = tuple(self.guards[self.frame.entered :])
        exits.leave(self, "return", node.at)
        return Completion.RETURN

    def raise_statement(self, node: r.Raise) -> Completion:
        raised = self.evaluate(node.value) if node.value is not None else NONE
        if self.attempts:
            exits.note_raise(self)
        completion = _RAISED.get(exceptions.name_of(raised), Completion.RAISE)
        if completion is Completion.EXIT:
            exits.leave_process(self, node.value, self.site(node.at))
        return completion

    def delete_statement(self, node: r.Delete) -> Completion:
        for target in node.targets:
            expressions.delete(self, target)
        return Completion.NORMAL

    def assert_statement(self, node: r.Assert) -> Completion:
        value = self.evaluate(node.test)
        if isinstance(node.test, r.Const) and not node.test.value:
            return Completion.RAISE  # `assert False`: nothing comes here
        for narrowing in expressions.narrowings(self, node.test, value, True):
            expressions.narrow(self, narrowing.node, narrowing.value)
        return Completion.NORMAL

    def import_statement(self, node: r.Import) -> Completion:
        for alias in node.names:
            self.import_module(alias)
        return Completion.NORMAL

    def import_module(self, alias: r.Alias) -> None:
        name = alias.name
        top = name.partition(".")[0]
        wanted = name if alias.asname else top
        unit = self.program.find(self.frame.unit, wanted)
        bound = alias.asname or top
        if unit is None:
            self.bind(bound, Foreign(wanted))
            return
        if self.has_effects(unit):
            self.module(unit)
        self.bind(bound, Lazy(unit, None))
        if not alias.asname and "." in name:
            deep = self.program.find(self.frame.unit, name)
            if deep is not None and self.has_effects(deep):
                self.module(deep)

    def has_effects(self, unit: Unit) -> bool:
        """Does importing the module do something by itself, so that it cannot wait until a name is asked for?"""
        if unit.is_stub or len(self.frames) > 2 or self.load(unit) is None or unit.module is None:
            return False
        return any(isinstance(s, r.Do) and isinstance(s.value, r.Call) for s in unit.module.body)

    def import_from(self, node: r.ImportFrom) -> Completion:
        if node.module == "dpcheck_intrinsics" and self.frame.unit.is_stub:
            for alias in node.names:
                self.bind(alias.asname or alias.name, intrinsics.find(alias.name))
            return Completion.NORMAL
        unit = self.program.find(self.frame.unit, node.module, node.level)
        if unit is None or not unit.is_stub:
            unit = self.spokesman(node) or unit
        if unit is None:
            for alias in node.names:
                dotted = f"{node.module}.{alias.name}" if node.module else alias.name
                child = self.program.find(self.frame.unit, dotted, node.level)
                holder = self.holder(node, alias.name) if child is None else None
                value: Value = Lazy(holder, alias.name) if holder is not None else Foreign(dotted)
                self.bind(alias.asname or alias.name, Lazy(child, None) if child is not None else value)
            return Completion.NORMAL
        if not node.names:
            self.frame.scope.globals.stars.insert(0, unit)
            if self.has_effects(unit):
                self.module(unit)
            return Completion.NORMAL
        if self.has_effects(unit):
            self.module(unit)
        for alias in node.names:
            child = self.program.child(unit, alias.name) if unit is self.frame.unit else None
            self.bind(alias.asname or alias.name, Lazy(child, None) if child is not None else Lazy(unit, alias.name))
        return Completion.NORMAL

    def spokesman(self, node: r.ImportFrom) -> Unit | None:
        """The stub above a module without one that speaks for all modules below it (it says so by `__submodules__`)."""
        above = self.stubs_above(node)
        return next((unit for unit in above if "__submodules__" in self.module(unit).scope.names), None)

    def holder(self, node: r.ImportFrom, name: str) -> Unit | None:
        """The stub above a module without one that defines the name: `torch.nn.modules.loss` is told by `torch.nn`."""
        return next((unit for unit in self.stubs_above(node) if name in self.module(unit).scope.names), None)

    def stubs_above(self, node: r.ImportFrom) -> Iterator[Unit]:
        parts = node.module.split(".") if not node.level else []
        for length in range(len(parts) - 1, 0, -1):
            unit = self.program.find(self.frame.unit, ".".join(parts[:length]))
            if unit is not None and unit.is_stub:
                yield unit

    def scope_statement(self, node: r.Scope) -> Completion:
        return Completion.NORMAL

    def function_statement(self, node: r.Function) -> Completion:
        function: Value = Function(node, self.closure, self.defaults(node.params), self.class_being_made)
        for decorator in reversed(node.decorators):
            function = calls.decorate(self, self.evaluate(decorator), function, self.site(node.at))
        self.bind(node.name, function)
        return Completion.NORMAL

    @property
    def closure(self) -> Scope:
        """The scope that a function made here sees: names of a class body are not visible in its methods."""
        scope = self.frames[-1].scope
        return scope.parent if self.class_being_made is not None and scope.parent is not None else scope

    @property
    def class_being_made(self) -> Class | None:
        frame = self.frames[-1]
        return frame.owner if frame.function is None else None

    def defaults(self, params: Many[r.Param]) -> dict[str, Value]:
        return {p.name: self.evaluate(p.default) for p in params if p.default is not None}

    def class_statement(self, node: r.Class) -> Completion:
        bases: list[Class] = []
        opaque = False
        for arg in node.bases:
            if arg.keyword is not None or arg.star:
                continue
            base = self.force(self.evaluate(arg.value))
            if isinstance(base, Class):
                bases.append(base)
            elif not (isinstance(base, Builtin) and base.name == "object"):
                opaque = opaque or not expressions.is_harmless_base(base)
        cls = Class(node.name, bases, self.frame.unit, node, self.site(node.at), opaque)
        frame = Frame(
            self.frame.unit, Scope(self.frame.unit, self.frame.scope, self.frame.scope.globals), self.frame.user_site
        )
        frame.owner = cls
        frame.path = (*self.path, None)
        self.frames.append(frame)
        try:
            self.block(node.body)
        finally:
            self.frames.pop()
        cls.attrs.update(frame.scope.names)
        hook = next(
            (base.attrs["__init_subclass__"] for base in cls.mro[1:] if "__init_subclass__" in base.attrs), None
        )
        if isinstance(hook, Function):
            kwargs = {a.keyword: self.evaluate(a.value) for a in node.bases if a.keyword and a.keyword != "metaclass"}
            calls.call(self, hook, [cls], kwargs, self.site(node.at))
        value: Value = cls
        for decorator in reversed(node.decorators):
            value = calls.decorate(self, self.evaluate(decorator), value, self.site(node.at))
        self.bind(node.name, value)
        return Completion.NORMAL

    def bind(self, name: str, value: Value) -> None:
        expressions.bind(self, name, value)

    # ------------------------------------------------------------ branches

    def if_statement(self, node: r.If) -> Completion:
        # Long elif chains are one loop here, not one recursion each.
        test = self.evaluate(node.test)
        truth = self.truth(test)
        if truth is not None:
            for narrowing in expressions.narrowings(self, node.test, test, truth):
                expressions.narrow(self, narrowing.node, narrowing.value)
            return self.block(node.body if truth else node.orelse)
        return self.either(
            node.test,
            test,
            lambda: self.block(node.body),
            lambda: self.block(node.orelse),
        )

    def either(
        self, node: r.Expr, test: Value, yes: Callable[[], Completion], no: Callable[[], Completion]
    ) -> Completion:
        """Execute both sides of an undecided condition and join what they leave.

        A condition of unknown value that a data-parallel run needs on one side (only there is the group started or a
        model wrapped) is assumed to be so from then on: that is the run we are asked about.
        """
        site = self.site(node.at)
        facts = expressions.facts_of_test(self, test)
        events = len(self.run.events)
        departed = len(self.frame.left)
        arms: list[Arm] = []
        depth = len(self.guards)
        fork = object()
        for holds, side in ((True, yes), (False, no)):
            guard = Guard(site, facts, holds, test, fork, len(self.loops), len(self.frames))
            mark = self.trail.mark()
            self.guards.append(guard)
            for narrowing in expressions.narrowings(self, node, test, holds):
                expressions.narrow(self, narrowing.node, narrowing.value)
            try:
                with self.alternative():
                    completion = side()
            except PathEndedError as ended:
                completion = ended.completion
            except (OutOfBudgetError, StopIterationError, RecursionError):
                self.run.events[events:events] = [event for arm in arms for event in arm.events]
                raise
            finally:
                del self.guards[depth:]
            recorded = self.run.events[events:]
            del self.run.events[events:]
            arms.append(Arm(completion, self._taken_back(mark, departed), guard, recorded))
            departed = len(self.frame.left)
        if not guard.by_rank:
            launches = [any(e.kind in ("group", "wrap", "launch", "shard") for e in arm.events) for arm in arms]
            one = arms[0] if launches[0] else arms[1]
            if launches[0] != launches[1] and is_the_run(one) and expressions.assume(self, test, launches[0]):
                arms = [one]
        return self._rejoin(arms, mark)

    @contextlib.contextmanager
    def alternative(self) -> Iterator[None]:
        """While one of several things happens that may happen here."""
        self.undecided.append(len(self.run.events))
        try:
            yield
        finally:
            self.undecided.pop()

    @property
    def may_fail(self) -> bool:
        """May what happens end in an error? The run that we are asked about does not: where all was decided, or ranks
        have begun to train on this path, then not all that was taken to be known is so.
        """
        if not self.undecided:
            return False
        return not any(event.kind in _TRAINING for event in self.run.events[self.undecided[-1] :])

    def _taken_back(self, mark: Mark, departed: int) -> Writes:
        """Take back what was written since the mark, and answer it. The paths that left on the way, from `departed`
        on, then start from there.
        """
        writes = self.trail.writes(mark)
        left = self.frame.left
        for index in reversed(range(departed, len(left))):
            self.trail.undo(left[index].mark)
            before = self.trail.writes(mark)
            left[index] = left[index]._replace(writes=before | left[index].writes, mark=mark)
        self.trail.undo(mark)
        return writes

    def _rejoin(self, arms: list[Arm], mark: Mark) -> Completion:
        going_on = [arm for arm in arms if arm.completion is Completion.NORMAL]
        for arm in arms:
            failed = arm.completion.is_end and arm.completion is not Completion.EXIT
            if failed and any(not other.completion.is_end for other in arms):
                continue
            for event in arm.events:
                object.__setattr__(event, "order", len(self.run.events))
                self.run.events.append(event)
            if going_on and arm.completion is not Completion.NORMAL and not arm.completion.is_end:
                differs = (*exits.differs_here(self, self.frame), *arm.guard.facts.differs)
                self.frame.left.append(Departure(arm.completion, arm.writes, mark, differs))
                self.frame.breaks = self.frame.breaks or arm.completion is Completion.BREAK
        if going_on:
            guard = going_on[0].guard
            unread = guard.facts.place.is_unknown and not guard.facts.sources
            differs = () if exits.is_a_turn(self, guard.test) else guard.facts.differs
            self.trail.merge([arm.writes for arm in going_on], unread=unread, test=guard.test, differs=differs)
            if len(going_on) < len(arms):
                self.guards.append(_remaining(guard, [arm for arm in arms if arm not in going_on]))
            return Completion.NORMAL
        kept = [arm for arm in arms if not arm.completion.is_end] or arms
        self.trail.merge([arm.writes for arm in kept], differs=arms[0].guard.facts.differs)
        return foremost({arm.completion for arm in kept})

    def choose(self, node: r.Expr, test: Value, yes: Callable[[], Value], no: Callable[[], Value]) -> Value:
        """A conditional expression whose condition is not decided: both values, joined."""
        results: dict[bool, Value] = {}

        def arm(holds: bool, side: Callable[[], Value]) -> Callable[[], Completion]:
            def execute() -> Completion:
                results[holds] = side()
                return Completion.NORMAL

            return execute

        before = len(self.assumed)
        completion = self.either(node, test, arm(True, yes), arm(False, no))
        if completion.is_end:
            raise PathEndedError(completion)
        truth = self.truth(test) if len(self.assumed) > before else None
        if truth is not None and truth in results:
            return results[truth]
        if len(results) < 2:
            return next(iter(results.values()))
        made = cast(Value, decided(join(results[True], results[False]), test, results[True], results[False]))
        differs = expressions.facts_of_test(self, test).differs
        return cast(Value, differing(made, differs)) if differs else made

    def branches(self, sides: Many[Callable[[], Value]]) -> Value:
        """Execute alternatives of which nobody knows which one happens; their results and effects are joined."""
        written: list[Writes] = []
        result: Value | None = None
        ends: set[Completion] = set()
        for side in sides:
            mark = self.trail.mark()
            try:
                with self.alternative():
                    value = side()
            except PathEndedError as ended:
                ends.add(ended.completion)
                self.trail.undo(mark)
                continue
            written.append(self.trail.undo(mark))
            result = value if result is None else join(result, value)
        if ends and not written:
            raise PathEndedError(foremost(ends))
        self.trail.merge(written)
        return result or NONE

    def truth(self, value: Value) -> bool | None:
        return expressions.truth(self, value)

    def match_statement(self, node: r.Match) -> Completion:
        subject = self.evaluate(node.subject)
        sides: list[Callable[[], Completion]] = []
        for case in node.cases:
            verdict = self._matches(subject, case)
            if verdict is not False:
                sides.append(functools.partial(self._case, subject, case))
            if verdict:
                break
        else:
            sides.append(lambda: Completion.NORMAL)
        return self._one_of(sides, node.subject.at)

    def _matches(self, subject: Value, case: r.MatchCase) -> bool | None:
        if case.guard is not None:
            return None
        if case.irrefutable or case.values is None:
            return case.irrefutable or None
        same = [expressions.equal(self, subject, self.evaluate(value)) for value in case.values]
        return True if True in same else None if None in same else False

    def _case(self, subject: Value, case: r.MatchCase) -> Completion:
        for name in case.binds:
            self.bind(name, subject if case.irrefutable else Data(NOTHING))
        return self.block(case.body)

    def _one_of(self, sides: Many[Callable[[], Completion]], at: int) -> Completion:
        """Execute alternatives of which nobody knows which one happens. Halving them keeps thousands from nesting."""
        if len(sides) == 1:
            return sides[0]()
        half = (len(sides) + 1) // 2
        return self.either(
            r.Opaque(at),
            Data(NOTHING),
            lambda: self._one_of(sides[:half], at),
            lambda: self._one_of(sides[half:], at),
        )

    def try_statement(self, node: r.Try) -> Completion:
        returns = len(self.frame.returns)
        attempt = exits.Attempt(len(self.guards), len(self.run.events))
        completion = self._guarded(node.body, attempt) if node.handlers else self.block(node.body)
        if completion.is_end:
            caught = [h for h in node.handlers if completion is not Completion.EXIT or self._catches_exit(h)]
            if caught:
                completion = self._handle(caught[0])
        elif completion is Completion.NORMAL:
            if node.handlers:
                self.handlers(node, attempt)
            completion = self.block(node.orelse)
        if node.final:
            overridden = len(self.frame.returns)
            last = self.block(node.final)
            if last is not Completion.NORMAL:
                completion = last
                del self.frame.returns[returns:overridden]
        return completion

    def _guarded(self, body: Many[r.Stmt], attempt: exits.Attempt) -> Completion:
        """The body of a `try` that has handlers."""
        frame = self.frame
        frame.guarded += 1
        self.attempts.append(attempt)
        try:
            with self.alternative():
                return self.block(body)
        finally:
            frame.guarded -= 1
            self.attempts.pop()

    def handlers(self, node: r.Try, attempt: exits.Attempt) -> None:
        """What the handlers bind is possible besides what the body bound; a failed import is not."""
        if all(isinstance(s, (r.Import, r.ImportFrom, r.Assign)) for s in node.body) and any(
            isinstance(s, (r.Import, r.ImportFrom)) for s in node.body
        ):
            return
        failed = Source(SourceKind.OPTION, self.site(node.at))
        test = Data(facts_.replace(NOTHING, sources=frozenset((failed,))))

        def nothing() -> Completion:
            return Completion.NORMAL

        sides = [functools.partial(self._handle, handler, attempt) for handler in node.handlers]
        depth = len(self.guards)
        self.either(r.Opaque(node.at), test, nothing, lambda: self._one_of(sides, node.at))
        del self.guards[depth:]

    def _handle(self, handler: r.Handler, attempt: exits.Attempt | None = None) -> Completion:
        """Execute a handler. `attempt`: the body of the `try`, if it may have been executed without an error."""
        if handler.name:
            self.bind(handler.name, Data(NOTHING))
        if attempt is None:
            return self.block(handler.body)
        caught = self.evaluate(handler.caught) if handler.caught is not None else None
        depth = len(self.guards)
        exits.catch(self, attempt, caught, self.site(handler.at))
        try:
            return self.block(handler.body)
        finally:
            del self.guards[depth:]

    def _catches_exit(self, handler: r.Handler) -> bool:
        if handler.caught is None:
            return True
        caught = self.evaluate(handler.caught)
        names = caught.items or [] if isinstance(caught, Sequence) else [caught]
        return any(exceptions.name_of(name) in ("SystemExit", "BaseException") for name in names)

    # ------------------------------------------------------------ loops

    def for_statement(self, node: r.For) -> Completion:
        iterable = self.evaluate(node.iter)
        return self.for_each(
            iterable, lambda v: expressions.assign(self, node.target, v), node.body, node.orelse, node.at
        )

    def for_each(
        self,
        iterable: Value,
        take: Callable[[Value], None],
        body: Many[r.Stmt],
        orelse: Many[r.Stmt],
        at: int,
    ) -> Completion:
        items = iterable.items if isinstance(iterable, Sequence) else None
        site = self.site(at)
        if items is not None and len(items) <= _LONGEST_UNROLL:
            return self._unrolled(items, take, body, orelse, site)
        if items is not None and len(items) <= _MOST_OBJECTS and all(isinstance(item, Instance) for item in items):
            # The modules of a model: what is done to each depends on its class.
            return self._unrolled(items, take, body, orelse, site)
        count = expressions.length_of(self, iterable)
        loop = Loop(site, expressions.underlying(iterable), count, guards=len(self.guards), feeds=tuple(self.fetching))
        outcome: list[Completion] = []

        def once(element: Value) -> Value:
            self.fetching.remove(loop)
            object.__setattr__(loop, "element", element)
            try:
                take(element)
                completion = self.block(body)
            finally:
                self.fetching.append(loop)
            if completion not in (Completion.NORMAL, Completion.CONTINUE):
                outcome.append(completion)
                raise StopIterationError(loop)
            return NONE

        def whole_pass() -> Completion:
            outcome.clear()
            self.fetching.append(loop)
            try:
                calls.iterate(self, iterable, once, site)
            except StopIterationError as stop:
                if stop.loop is not loop:
                    raise
                return outcome[-1]
            finally:
                self.fetching.remove(loop)
            exits.leave_loop(self, loop, count, iteration.length_facts(iterable) or NOTHING)
            return Completion.NORMAL

        return self._loop(loop, whole_pass, orelse, surely=isinstance(count, Const) and self.truth(count) is True)

    def while_statement(self, node: r.While) -> Completion:
        test = self.evaluate(node.test)
        if self.truth(test) is False:
            return self.block(node.orelse)
        loop = Loop(self.site(node.at), guards=len(self.guards), feeds=tuple(self.fetching))
        surely = self.truth(test) is True

        def whole_pass() -> Completion:
            for narrowing in expressions.narrowings(self, node.test, test, True):
                expressions.narrow(self, narrowing.node, narrowing.value)
            completion = self.block(node.body)
            again = self.evaluate(node.test)
            exits.leave_loop(self, loop, again, expressions.facts_of_test(self, again))
            return Completion.NORMAL if completion is Completion.CONTINUE else completion

        return self._loop(loop, whole_pass, node.orelse, surely)

    def _unrolled(
        self, items: list[Value], take: Callable[[Value], None], body: Many[r.Stmt], orelse: Many[r.Stmt], site: Site
    ) -> Completion:
        depth = len(self.guards)
        frame = self.frame
        left, frame.left = frame.left, []
        breaks, frame.breaks = frame.breaks, False
        frame.turns.append(0)
        loop = Loop(site, guards=depth)
        frame.passes.append(loop)
        try:
            for frame.turns[-1], item in enumerate(list(items)):
                take(item)
                completion = self.block(body)
                del self.guards[depth:]
                self._merge_left()
                exits.rejoin(self, loop, "continue")
                if completion is Completion.BREAK:
                    return Completion.NORMAL
                if completion is Completion.RETURN or completion.is_end:
                    return completion
            return self._otherwise(orelse)
        finally:
            frame.turns.pop()
            frame.passes.pop()
            exits.rejoin(self, loop)
            frame.left, frame.breaks = left, breaks

    def _otherwise(self, orelse: Many[r.Stmt]) -> Completion:
        """The `else` of a loop that ran to its end, or perhaps was left by a break."""
        if not orelse or not self.frame.breaks:
            return self.block(orelse)
        mark = self.trail.mark()
        depth = len(self.guards)
        departed = len(self.frame.left)
        completion = self.block(orelse)
        del self.guards[depth:]
        writes = self._taken_back(mark, departed)
        if completion is Completion.NORMAL:
            self.trail.merge([writes, {}])
        return Completion.NORMAL

    def _loop(
        self, loop: Loop, whole_pass: Callable[[], Completion], orelse: Many[r.Stmt], surely: bool = False
    ) -> Completion:
        """Execute a loop: a rehearsal shows what changes from pass to pass, the pass after it is recorded.

        Inside a rehearsal one pass is enough, so the work grows with the depth of the nesting, not exponentially.
        What follows a loop whose every pass ends the path follows no pass, unless there is `surely` one.
        """
        depth = len(self.guards)
        self.loops.append(loop)
        frame = self.frame
        frame.passes.append(loop)
        left, frame.left = frame.left, []
        breaks, frame.breaks = frame.breaks, False
        try:
            events = len(self.run.events)
            returns = len(self.frame.returns)
            mark = self.trail.mark()
            self.rehearsals += 1
            try:
                completion = whole_pass()
            finally:
                self.rehearsals -= 1
                del self.guards[depth:]
            if completion.is_end and frame.on_yield is None:
                self.trail.undo(mark)
            self._merge_left()
            self.trail.widen(mark)
            if not self.rehearsals:
                del self.run.events[events:]
                del self.frame.returns[returns:]
                completion = whole_pass()
                del self.guards[depth:]
                self._merge_left()
        finally:
            self.loops.pop()
            frame.passes.pop()
            del self.guards[depth:]
            exits.rejoin(self, loop)
        try:
            if completion.is_end and not surely:
                if frame.on_yield is None:
                    self.trail.undo(mark)
                completion = Completion.NORMAL
            if completion is Completion.RETURN or completion.is_end:
                return completion
            return self._otherwise(orelse) if completion is Completion.NORMAL else Completion.NORMAL
        finally:
            frame.left, frame.breaks = left, breaks

    def _merge_left(self) -> None:
        """Join in what the branches wrote that left the loop body or function early."""
        for departure in self.frame.left:
            self.trail.merge([departure.writes, {}], differs=departure.differs)
        self.frame.left = []

    # ------------------------------------------------------------ with

    def with_statement(self, node: r.With) -> Completion:
        return self._with(node, 0)

    def _with(self, node: r.With, index: int) -> Completion:
        if index == len(node.items):
            return self.block(node.body)
        item = node.items[index]
        manager = self.evaluate(item.value)
        outcome: list[Completion] = []

        def inside(value: Value) -> Completion:
            try:
                if item.target is not None:
                    expressions.assign(self, item.target, value)
                outcome.append(self._with(node, index + 1))
            except PathEndedError as ended:
                outcome.append(ended.completion)
            return outcome[-1]

        swallows = calls.enter(self, manager, inside, self.site(item.value.at))
        completion = outcome[-1] if outcome else Completion.NORMAL
        return Completion.NORMAL if swallows and completion in (Completion.RAISE, Completion.ABSTRACT) else completion

    def break_statement(self, node: r.Break) -> Completion:
        exits.leave(self, "break", node.at)
        if self.frame.passes:
            self.record("break", self.site(node.at), None, loop=self.frame.passes[-1])
        return Completion.BREAK

    def continue_statement(self, node: r.Continue) -> Completion:
        exits.leave(self, "continue", node.at)
        return Completion.CONTINUE


def foremost(completions: Iterable[Completion]) -> Completion:
    """What speaks for several ways to leave a block: the one after which most is still to come."""
    order = (Completion.CONTINUE, Completion.BREAK, Completion.RETURN, Completion.EXIT, Completion.ABSTRACT)
    found = set(completions)
    return next((completion for completion in order if completion in found), Completion.RAISE)


def is_the_run(arm: Arm) -> bool:
    """Is the side of a condition on which ranks start the run that we are asked about? One that evaluates on many
    ranks and leaves is not, nor one that trains and leaves: the ranks may be started further down.
    """
    goes_on = arm.completion in (Completion.NORMAL, Completion.CONTINUE)
    return goes_on or any(event.kind == "launch" for event in arm.events)


def bound_names(statements: Many[r.Stmt], names: set[str]) -> Iterator[r.ImportFrom]:
    """Add the names that statements bind to `names`, and give the star imports among them."""
    for s in statements:
        if isinstance(s, (r.Function, r.Class)):
            names.add(s.name)
        elif isinstance(s, r.Assign):
            waiting = list(s.targets)
            while waiting:
                target = waiting.pop()
                if isinstance(target, r.Name):
                    names.add(target.id)
                elif isinstance(target, r.Seq):
                    waiting.extend(target.items)
        elif isinstance(s, r.Import):
            names.update(alias.asname or alias.name.partition(".")[0] for alias in s.names)
        elif isinstance(s, r.ImportFrom):
            names.update(alias.asname or alias.name for alias in s.names)
            if not s.names:
                yield s
        elif isinstance(s, r.If):
            yield from bound_names((*s.body, *s.orelse), names)
        elif isinstance(s, (r.For, r.While, r.With)):
            yield from bound_names(s.body, names)
        elif isinstance(s, r.Try):
            yield from bound_names((*s.body, *s.orelse, *s.final), names)
            for handler in s.handlers:
                yield from bound_names(handler.body, names)


_TRAINING = frozenset(
    ("group", "wrap", "launch", "model", "optimizer", "loader", "iterate", "forward", "backward", "step")
)
_RAISED = {"SystemExit": Completion.EXIT, "NotImplementedError": Completion.ABSTRACT}

_STATEMENTS: dict[type, Callable[[Interpreter, Any], Completion]] = {
    r.Do: Interpreter.do,
    r.Assign: Interpreter.assign_statement,
    r.Update: Interpreter.update_statement,
    r.Return: Interpreter.return_statement,
    r.Raise: Interpreter.raise_statement,
    r.Break: Interpreter.break_statement,
    r.Continue: Interpreter.continue_statement,
    r.Delete: Interpreter.delete_statement,
    r.Assert: Interpreter.assert_statement,
    r.If: Interpreter.if_statement,
    r.For: Interpreter.for_statement,
    r.While: Interpreter.while_statement,
    r.With: Interpreter.with_statement,
    r.Try: Interpreter.try_statement,
    r.Match: Interpreter.match_statement,
    r.Function: Interpreter.function_statement,
    r.Class: Interpreter.class_statement,
    r.Import: Interpreter.import_statement,
    r.ImportFrom: Interpreter.import_from,
    r.Scope: Interpreter.scope_statement,
}
