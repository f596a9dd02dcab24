"""Executes a linked program abstractly, as one rank of many: statements, branches and loops.

Expressions are in `expressions`, calls and attributes in `calls`. Nothing here knows a library: what torch and the
frameworks do is written in `dpcheck/frameworks/` and executed like the user's code, down to the `intrinsics`.
"""

from __future__ import annotations

import enum
import time
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Many
from typing import TYPE_CHECKING, Any, NamedTuple

from dpcheck.execution import calls, expressions, intrinsics
from dpcheck.execution import facts as facts_
from dpcheck.execution.facts import NOTHING, Site, Source, SourceKind
from dpcheck.execution.run import Event, Guard, Loop, TrainingRun
from dpcheck.execution.trail import Mark, Trail, Writes, join
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

_MOST_STEPS = 300_000
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


class Completion(enum.Enum):
    NORMAL = 0
    RETURN = 1
    BREAK = 2
    CONTINUE = 3
    RAISE = 4


class Frame:
    """A running function, class body or module. `user_site`: the call in the user's code that led into a library."""

    __slots__ = ("breaks", "function", "left", "on_yield", "owner", "receiver", "returns", "scope", "unit", "user_site")

    def __init__(self, unit: Unit, scope: Scope, user_site: Site | None, function: Function | None = None) -> None:
        self.unit = unit
        self.scope = scope
        self.user_site = user_site
        self.function = function
        self.owner: Class | None = function.owner if function else None
        self.receiver: Value | None = None
        self.returns: list[Value] = []
        self.left: list[Writes] = []
        self.breaks = False  # was the loop under way left by a break on some path?
        self.on_yield: Callable[[Value], Value] | None = None


class Narrowing(NamedTuple):
    """What a test says of a variable on one of its sides."""

    node: r.Expr
    value: Value


class Interpreter:
    def __init__(self, program: Program, entry: Site) -> None:
        self.program = program
        self.run = TrainingRun(program, entry)
        self.trail = Trail()
        self.frames: list[Frame] = []
        self.modules: dict[str, ModuleValue] = {}
        self.guards: list[Guard] = []
        self.loops: list[Loop] = []
        self.fetching: list[Loop] = []  # the loops that are getting their next element, not executing their body
        self.assumed: dict[object, bool] = {}
        self.unified: dict[object, Value] = {}
        self.rehearsals = 0
        self.unread_calls = 0
        self.steps = 0
        self.deadline = time.process_time() + _MOST_SECONDS
        self.machine = Store()
        self.building: list[tuple[Instance, intrinsics.RandomState, list[intrinsics.RandomState]]] = []
        self.calling: list[Value] = []
        self.hooks: list[tuple[Data, Value, bool]] = []
        self.builtins: dict[str, Value] = {}
        self.exports: dict[str, frozenset[str]] = {}
        self.spent: dict[int, list[int]] = {}  # calls and steps of each function

    # ------------------------------------------------------------ where we are

    @property
    def frame(self) -> Frame:
        return self.frames[-1]

    def site(self, at: int) -> Site:
        """The place of a record of the running function; inside a library, the user's call that led there."""
        frame = self.frames[-1]
        if frame.unit.is_stub and frame.user_site is not None:
            return frame.user_site
        return Site(frame.unit.display, at)

    def record(self, kind: str, site: Site, subject: Any = None, **details: Any) -> Event:
        if kind == "iterate":
            details["fetching"] = tuple(self.fetching)
        event = Event(kind, site, subject, details, tuple(self.loops), tuple(self.guards), len(self.run.events))
        self.run.events.append(event)
        return event

    def note_unknown(self, reason: str) -> None:
        if not self.rehearsals:
            self.run.unknowns[reason] = self.run.unknowns.get(reason, 0) + 1

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
            return calls.call(self, fallback, [Const(name)], {}, self.site(0))
        return Foreign(f"{module.unit.name}.{name}")

    # ------------------------------------------------------------ statements

    def block(self, statements: Many[r.Stmt]) -> Completion:
        for statement in statements:
            completion = _STATEMENTS[type(statement)](self, statement)
            if completion is not Completion.NORMAL:
                return completion
        return Completion.NORMAL

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
        self.frame.returns.append(self.evaluate(node.value) if node.value is not None else NONE)
        return Completion.RETURN

    def raise_statement(self, node: r.Raise) -> Completion:
        return Completion.RAISE

    def delete_statement(self, node: r.Delete) -> Completion:
        for target in node.targets:
            expressions.delete(self, target)
        return Completion.NORMAL

    def assert_statement(self, node: r.Assert) -> Completion:
        value = self.evaluate(node.test)
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
        facts = expressions.facts_of(self, test)
        events = len(self.run.events)
        arms: list[tuple[Completion, Writes, Guard, list[Event]]] = []
        depth = len(self.guards)
        for holds, side in ((True, yes), (False, no)):
            guard = Guard(site, facts, holds)
            mark = self.trail.mark()
            self.guards.append(guard)
            for narrowing in expressions.narrowings(self, node, test, holds):
                expressions.narrow(self, narrowing.node, narrowing.value)
            try:
                completion = side()
            finally:
                del self.guards[depth:]
            recorded = self.run.events[events:]
            del self.run.events[events:]
            arms.append((completion, self.trail.undo(mark), guard, recorded))
        if not guard.by_rank:
            launches = [any(e.kind in ("group", "wrap", "launch", "shard") for e in arm[3]) for arm in arms]
            if launches[0] != launches[1] and expressions.assume(self, test, launches[0]):
                arms = [arms[0] if launches[0] else arms[1]]
        return self._rejoin(arms)

    def _rejoin(self, arms: list[tuple[Completion, Writes, Guard, list[Event]]]) -> Completion:
        going_on = [arm for arm in arms if arm[0] is Completion.NORMAL]
        for completion, writes, _, recorded in arms:
            if completion is Completion.RAISE and len(arms) > 1:
                continue
            for event in recorded:
                object.__setattr__(event, "order", len(self.run.events))
                self.run.events.append(event)
            if completion is not Completion.NORMAL and going_on:
                self.frame.left.append(writes)
                self.frame.breaks = self.frame.breaks or completion is Completion.BREAK
        if going_on:
            test = going_on[0][2].facts
            self.trail.merge([arm[1] for arm in going_on], unread=test.place.is_unknown and not test.sources)
            if len(going_on) < len(arms):
                self.guards.append(going_on[0][2])
            return Completion.NORMAL
        kept = [arm for arm in arms if arm[0] is not Completion.RAISE] or arms
        self.trail.merge([arm[1] for arm in kept])
        kinds = {arm[0] for arm in kept}
        for completion in (Completion.CONTINUE, Completion.BREAK, Completion.RETURN):
            if completion in kinds:
                return completion
        return Completion.RAISE

    def choose(self, node: r.Expr, test: Value, yes: Callable[[], Value], no: Callable[[], Value]) -> Value:
        """A conditional expression whose condition is not decided: both values, joined."""
        results: list[Value] = []

        def arm(side: Callable[[], Value]) -> Callable[[], Completion]:
            def execute() -> Completion:
                results.append(side())
                return Completion.NORMAL

            return execute

        before = len(self.assumed)
        self.either(node, test, arm(yes), arm(no))
        if len(self.assumed) > before:
            truth = self.truth(test)
            if truth is not None:
                return results[0] if truth else results[1]
        return join(results[0], results[1])

    def branches(self, sides: Many[Callable[[], Value]]) -> Value:
        """Execute alternatives of which nobody knows which one happens; their results and effects are joined."""
        written: list[Writes] = []
        result: Value | None = None
        for side in sides:
            mark = self.trail.mark()
            value = side()
            written.append(self.trail.undo(mark))
            result = value if result is None else join(result, value)
        self.trail.merge(written)
        return result or NONE

    def truth(self, value: Value) -> bool | None:
        return expressions.truth(self, value)

    def match_statement(self, node: r.Match) -> Completion:
        subject = self.evaluate(node.subject)
        return self._match(subject, node, 0)

    def _match(self, subject: Value, node: r.Match, index: int) -> Completion:
        if index == len(node.cases):
            return Completion.NORMAL
        case = node.cases[index]
        verdict: bool | None = None
        if case.irrefutable and case.guard is None:
            verdict = True
        elif case.values is not None and case.guard is None:
            same = [expressions.equal(self, subject, self.evaluate(value)) for value in case.values]
            verdict = True if True in same else None if None in same else False

        def taken() -> Completion:
            for name in case.binds:
                self.bind(name, subject if case.irrefutable else Data(NOTHING))
            return self.block(case.body)

        if verdict is not None:
            return taken() if verdict else self._match(subject, node, index + 1)
        return self.either(node.subject, Data(NOTHING), taken, lambda: self._match(subject, node, index + 1))

    def try_statement(self, node: r.Try) -> Completion:
        mark = self.trail.mark()
        returns = len(self.frame.returns)
        completion = self.block(node.body)
        if completion is Completion.RAISE and node.handlers:
            completion = self.block(node.handlers[0].body)
        elif completion is Completion.NORMAL:
            if node.handlers:
                self.handlers(node, mark)
            completion = self.block(node.orelse)
        if node.final:
            overridden = len(self.frame.returns)
            last = self.block(node.final)
            if last is not Completion.NORMAL:
                completion = last
                del self.frame.returns[returns:overridden]
        return completion

    def handlers(self, node: r.Try, mark: Mark) -> None:
        """What the handlers bind is possible besides what the body bound; a failed import is not."""
        if all(isinstance(s, (r.Import, r.ImportFrom, r.Assign)) for s in node.body) and any(
            isinstance(s, (r.Import, r.ImportFrom)) for s in node.body
        ):
            return
        failed = Source(SourceKind.OPTION, self.site(node.at))
        test = Data(facts_.replace(NOTHING, sources=frozenset((failed,))))

        def nothing() -> Completion:
            return Completion.NORMAL

        def handle() -> Completion:
            completion = Completion.NORMAL
            for handler in node.handlers:
                if handler.name:
                    self.bind(handler.name, Data(NOTHING))
                completion = self.block(handler.body)
            return completion

        depth = len(self.guards)
        self.either(r.Opaque(node.at), test, nothing, handle)
        del self.guards[depth:]

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
        if items is not None and len(items) <= _LONGEST_UNROLL:
            return self._unrolled(items, take, body, orelse)
        if items is not None and len(items) <= _MOST_OBJECTS and all(isinstance(item, Instance) for item in items):
            # The modules of a model: what is done to each depends on its class.
            return self._unrolled(items, take, body, orelse)
        site = self.site(at)
        loop = Loop(site, expressions.underlying(iterable), expressions.length_of(self, iterable))
        outcome: list[Completion] = []

        def once(element: Value) -> Value:
            self.fetching.remove(loop)
            try:
                take(element)
                completion = self.block(body)
            finally:
                self.fetching.append(loop)
            if completion in (Completion.BREAK, Completion.RETURN, Completion.RAISE):
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
            return Completion.NORMAL

        return self._loop(loop, whole_pass, orelse)

    def while_statement(self, node: r.While) -> Completion:
        test = self.evaluate(node.test)
        if self.truth(test) is False:
            return self.block(node.orelse)
        loop = Loop(self.site(node.at))

        def whole_pass() -> Completion:
            for narrowing in expressions.narrowings(self, node.test, test, True):
                expressions.narrow(self, narrowing.node, narrowing.value)
            completion = self.block(node.body)
            self.evaluate(node.test)
            return Completion.NORMAL if completion is Completion.CONTINUE else completion

        return self._loop(loop, whole_pass, node.orelse)

    def _unrolled(
        self, items: list[Value], take: Callable[[Value], None], body: Many[r.Stmt], orelse: Many[r.Stmt]
    ) -> Completion:
        depth = len(self.guards)
        frame = self.frame
        left, frame.left = frame.left, []
        breaks, frame.breaks = frame.breaks, False
        try:
            for item in list(items):
                take(item)
                completion = self.block(body)
                del self.guards[depth:]
                self._merge_left()
                if completion is Completion.BREAK:
                    return Completion.NORMAL
                if completion in (Completion.RETURN, Completion.RAISE):
                    return completion
            return self._otherwise(orelse)
        finally:
            frame.left, frame.breaks = left, breaks

    def _otherwise(self, orelse: Many[r.Stmt]) -> Completion:
        """The `else` of a loop that ran to its end, or perhaps was left by a break."""
        if not orelse or not self.frame.breaks:
            return self.block(orelse)
        mark = self.trail.mark()
        depth = len(self.guards)
        completion = self.block(orelse)
        del self.guards[depth:]
        writes = self.trail.undo(mark)
        if completion is Completion.NORMAL:
            self.trail.merge([writes, {}])
        return Completion.NORMAL

    def _loop(self, loop: Loop, whole_pass: Callable[[], Completion], orelse: Many[r.Stmt]) -> Completion:
        """Execute a loop: a rehearsal shows what changes from pass to pass, the pass after it is recorded.

        Inside a rehearsal one pass is enough, so the work grows with the depth of the nesting, not exponentially.
        """
        depth = len(self.guards)
        self.loops.append(loop)
        frame = self.frame
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
            del self.guards[depth:]
        try:
            if completion in (Completion.RETURN, Completion.RAISE):
                return completion
            return self._otherwise(orelse) if completion is Completion.NORMAL else Completion.NORMAL
        finally:
            frame.left, frame.breaks = left, breaks

    def _merge_left(self) -> None:
        """Join in what the branches wrote that left the loop body or function early."""
        for writes in self.frame.left:
            self.trail.merge([writes, {}])
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
            if item.target is not None:
                expressions.assign(self, item.target, value)
            outcome.append(self._with(node, index + 1))
            return outcome[-1]

        calls.enter(self, manager, inside, self.site(item.value.at))
        return outcome[-1] if outcome else Completion.NORMAL

    def break_statement(self, node: r.Break) -> Completion:
        return Completion.BREAK

    def continue_statement(self, node: r.Continue) -> Completion:
        return Completion.CONTINUE


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
