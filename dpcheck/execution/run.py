"""What one rank of a data-parallel run does, in order: the record that the interpreter writes and the rules read."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from dpcheck.execution.facts import Facts, Scaling, Site, SourceKind, Term, scale
from dpcheck.execution.placement import Placement
from dpcheck.execution.values import Choice, Const, Data, Instance, Mapping, Sequence, Value

if TYPE_CHECKING:
    from dpcheck.findings.finding import Span
    from dpcheck.program.link import Program


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Guard:
    """A condition that was not decided and under which something happens. `holds`: on its true side?

    The two sides share their `fork`. `loops` and `frames` are how many loops and calls were under way there.
    """

    site: Site
    facts: Facts
    holds: bool
    test: Value | None = None
    fork: object = None
    loops: int = 0
    frames: int = 0

    @property
    def by_rank(self) -> bool:
        """Do some ranks take this side and others not?"""
        return self.facts.has(SourceKind.RANK) or self.facts.has(SourceKind.LOCAL_RANK)

    @property
    def counts_steps(self) -> bool:
        """Is it the remainder of a counter (`step % accumulation == 0`)?"""
        return self.facts.modulus is not None


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Loop:
    """A loop whose body runs an unknown number of times. `over` is what it iterates, None for `while`.

    `element` is what it takes in a pass, as far as the pass that is recorded shows. `guards` is the number of guards
    that it stands under, `feeds` the loops that were waiting for their next element when it began: it runs inside of
    the generator that they go through.
    """

    site: Site
    over: Value | None = None
    count: Value | None = None
    element: Value | None = None
    guards: int = 0
    feeds: tuple[Loop, ...] = ()

    @property
    def runs_once(self) -> bool:
        return isinstance(self.count, Const) and self.count.value in (0, 1)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Event:
    """Something that happened at `site`, inside `loops` (outermost first), under `guards`.

    `kind` names it (see `dpcheck.execution.intrinsics`, which records them); `subject` is the object concerned and
    `details` what else is known, by name.
    """

    kind: str
    site: Site
    subject: Any
    details: dict[str, Any]
    loops: tuple[Loop, ...]
    guards: tuple[Guard, ...]
    order: int

    def __getattr__(self, name: str) -> Any:
        try:
            return self.details[name]
        except KeyError:
            raise AttributeError(name) from None


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """A loss term as it reaches the weights: after backward, the reduction over the ranks, and what scaled it since.

    `world` is the exponent of W by which the update exceeds the one that is meant, None where it is not known.
    `scalings` are the factors of the loss and of the gradients, in the order in which they were applied. `repeats` is
    the exponent of W in the number of backwards that add up.
    """

    update: Update
    backward: Event
    term: Term
    place: Placement
    world: int | None
    counted: bool
    scalings: tuple[Scaling, ...]
    reductions: tuple[Event, ...]
    repeats: int | None


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Update:
    """One optimizer step and what led to it: backwards, the wrappers they went through, what was done to gradients.

    Where no step was seen, `step` is the backward itself.

    `summed` is the exponent of W by which the reduction of the gradients exceeds an average over the ranks: 0 for DDP,
    1 for a hand-written sum, None when nothing in sight reduces them. `accumulates`: several backwards add up.
    `partial`: some gradients may be changed by what is not seen here, hooks of single parameters or code that was not
    read and had the weights in hand.
    """

    step: Event
    backwards: tuple[Event, ...]
    wraps: tuple[Event, ...]
    reductions: tuple[Event, ...]
    scalings: tuple[Event, ...]
    summed: int | None
    accumulates: bool
    partial: bool = False

    def judged(self) -> Iterator[Judged]:
        for backward in self.backwards:
            for term in backward.facts.terms:
                yield self._judge(backward, term)

    def _judge(self, backward: Event, term: Term) -> Judged:
        if self.partial:
            term = dataclasses.replace(term, unsure=True)
        for event in self.scalings:
            term = scale(term, event.by, event.value, event.site, event.divides)
        repeats = _repeats(backward, self.step)
        world = None
        if self.summed is not None and repeats is not None and not term.place.is_unknown and not term.unsure:
            world = term.place.world + self.summed + repeats
        return Judged(self, backward, term, term.place, world, term.counted, term.scalings, self.reductions, repeats)


class Unknown(NamedTuple):
    """Something that dpcheck knows nothing of: how often it was come upon, and where first."""

    times: int
    first: Site


_COMMUNICATION = frozenset(("collective", "reduce gradients", "broadcast weights"))
TRACED = _COMMUNICATION | frozenset(
    ("group", "new group", "wrap", "forward", "backward", "write", "read", "download", "scheduler step")
)
"""What is recorded with the calls that led to it, one for each frame (None: the frame was not called)."""


class TrainingRun:
    """The record of one entry point. `complete` is False when a budget ran out: then absence proves nothing."""

    def __init__(self, program: Program, entry: Site) -> None:
        self.program = program
        self.entry = entry
        self.events: list[Event] = []
        self.complete = True
        self.unknowns: dict[str, Unknown] = {}  # by what they are
        self.groups: dict[Site, Value] = {}
        self.starts_group = False
        self.reached: frozenset[int] = frozenset()  # identities of the functions that were executed

    def of_kind(self, *kinds: str) -> list[Event]:
        return [event for event in self.events if event.kind in kinds]

    def span(self, site: Site) -> Span:
        return self.program.span(site.path, site.at)

    def leave_out_one_process(self) -> None:
        """Forget what the script does where it does not start the ranks that it trains on elsewhere."""
        started: dict[object, bool] = {}
        for launch in self.of_kind("launch"):
            started.update((guard.fork, guard.holds) for guard in launch.guards if not guard.by_rank)
        trained = {(guard.fork, guard.holds) for e in self.of_kind("backward") for guard in e.guards}
        for launch in self.of_kind("launch"):
            for guard in launch.guards:
                if started.get(guard.fork) is not guard.holds or (guard.fork, guard.holds) not in trained:
                    started.pop(guard.fork, None)  # on both sides, or to another end
        self.events = [e for e in self.events if not any(started.get(g.fork) is (not g.holds) for g in e.guards)]

    @property
    def is_data_parallel(self) -> bool:
        """Do the ranks have to do with one another? Processes that are started and never communicate do not."""
        kinds = {event.kind for event in self.events}
        return not kinds.isdisjoint(("group", "wrap")) or ("launch" in kinds and not kinds.isdisjoint(_COMMUNICATION))

    @functools.cached_property
    def updates(self) -> tuple[Update, ...]:
        """The optimizer steps of the run, each with the backwards since the step before it."""
        found = [update for step in self.of_kind("step") if (update := self._update(step)) is not None]
        covered = {id(backward) for update in found for backward in update.backwards}
        for backward in self.of_kind("backward"):
            # A step that was not seen (an optimizer that was not read) does not excuse the loss.
            if id(backward) not in covered and not any(e.order > backward.order for e in self.of_kind("step")):
                found.append(self._assemble(backward, [backward], [backward]))
        return tuple(found)

    def _update(self, step: Event) -> Update | None:
        earlier = [e.order for e in self.of_kind("step") if e.subject is step.subject and e.order < step.order]
        since = max(earlier, default=-1)
        between = [e for e in self.events if since < e.order < step.order]
        owners = self.owning(step.subject)
        backwards = [e for e in between if e.kind == "backward" and _concerns(e, owners)]
        if not backwards:
            return None
        return self._assemble(step, backwards, between)

    def _assemble(self, step: Event, backwards: list[Event], between: list[Event]) -> Update:
        modules = {id(module) for e in backwards for module in e.modules}
        modules |= {id(unwrapped(module)) for e in backwards for module in e.modules}
        wraps = [e for e in self.of_kind("wrap") if id(e.wrapper) in modules or id(unwrapped(e.subject)) in modules]
        reductions = _once([e for e in between if e.kind == "reduce gradients" and e.order > backwards[0].order])
        scalings = _once([e for e in between if e.kind == "scale gradients" and e.order > backwards[0].order])
        summed: int | None = 0 if any(e.averages for e in wraps) else None
        for event in reductions:
            if event.op == "sum":
                summed = (summed or 0) + 1
            elif summed is None:
                summed = 0
        return Update(
            step,
            tuple(backwards),
            tuple(wraps),
            tuple(reductions),
            tuple(scalings),
            summed,
            any(_accumulates(e, step) for e in backwards),
            any(e.kind == "partial hook" for e in self.events)
            or any(e.kind == "handed over" and e.order > backwards[0].order for e in between),
        )

    def owners(self, optimizer: Any) -> set[int]:
        """The modules whose parameters an optimizer steps, by identity."""
        return {id(owner) for owner in self.owning(optimizer)}

    def owning(self, optimizer: Any) -> list[Any]:
        """The modules whose parameters an optimizer steps."""
        made = [event for event in self.of_kind("optimizer") if event.subject is optimizer]
        return [unwrapped(owner) for event in made for owner in event.owners]


def unwrapped(module: Any) -> Any:
    """The module inside its wrappers."""
    while isinstance(module, Instance) and isinstance(module.attrs.get("%module"), Instance):
        module = module.attrs["%module"]
    return module


def parts_of(module: Any) -> Iterator[Any]:
    """A module and the modules that it holds, also in lists and dictionaries."""
    waiting: list[Any] = [module]
    seen: set[int] = set()
    while waiting:
        value = waiting.pop()
        if id(value) in seen or len(seen) > 2000:
            continue
        seen.add(id(value))
        if isinstance(value, Instance):
            yield value
            waiting.extend(value.attrs.values())
        elif isinstance(value, Sequence):
            waiting.extend(value.items or [v for v in (value.element,) if v is not None])
        elif isinstance(value, Mapping):
            waiting.extend(value.entries.values())
        elif isinstance(value, Choice):
            waiting.extend(value.options)


def _concerns(backward: Event, owners: list[Any]) -> bool:
    """May the backward reach the parameters of these modules? Only what is known to lie apart is left out."""
    modules = [unwrapped(module) for module in backward.modules]
    if not owners or not modules or not all(isinstance(m, Instance) for m in (*modules, *owners)):
        return True
    inside = {id(part) for module in modules for part in parts_of(module)}
    if any(id(owner) in inside for owner in owners):
        return True
    called = {id(module) for module in modules}
    return any(id(part) in called for owner in owners for part in parts_of(owner))


def _once(events: list[Event]) -> list[Event]:
    """One event a place: a loop over parameters is one reduction."""
    return list({event.site: event for event in events}.values())


def accumulation(update: Update) -> list[Value | None]:
    """The numbers whose product is the number of backwards in one update; None for one that is not known."""
    backward, step = update.backwards[-1], update.step
    found: list[Value | None] = []
    if backward.loops[: len(step.loops)] == step.loops:
        found += [loop.count for loop in backward.loops[len(step.loops) :]]
    moduli = [g.facts.modulus for g in step.guards if g not in backward.guards and g.facts.modulus is not None]
    return found + [modulus.value for modulus in moduli]


def _repeats(backward: Event, step: Event) -> int | None:
    """The exponent of W in the number of backwards that add up before the step; None when it is not known."""
    world = 0
    if backward.loops[: len(step.loops)] == step.loops:
        for loop in backward.loops[len(step.loops) :]:
            if isinstance(loop.count, Data):
                place = loop.count.facts.place
                if not place.is_replicate:
                    return None
                world += place.world
    for guard in step.guards:
        if guard not in backward.guards and guard.facts.modulus is not None:
            if not guard.facts.modulus.place.is_replicate:
                return None
            world += guard.facts.modulus.place.world
    return world


def _accumulates(backward: Event, step: Event) -> bool:
    """Do several backwards add up before the step?"""
    if len(backward.loops) > len(step.loops) and backward.loops[: len(step.loops)] == step.loops:
        return not all(loop.runs_once for loop in backward.loops[len(step.loops) :])
    return any(guard.counts_steps and guard not in backward.guards for guard in step.guards)


def escaped(value: Value | None) -> bool:
    """Was the object handed to code that was not read?"""
    return isinstance(value, Instance) and "%escaped" in value.attrs
