"""What the ranks do together in a run, and which of them: collectives, those that hide in other calls, and the guards
and exits that keep some ranks from them.
"""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Iterable, Iterator

from dpcheck.execution.facts import Difference, Facts, Site, SourceKind
from dpcheck.execution.loading import leaves
from dpcheck.execution.run import Event, Guard, Loop, TrainingRun, parts_of, unwrapped
from dpcheck.execution.values import Const, Data, Instance, Sequence, Value, is_false, is_true, options

_OF_RANKS = (SourceKind.RANK, SourceKind.LOCAL_RANK)
_NUMBERS = ("rank", "local rank")


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Communication:
    """Something that all ranks of the group take part in: the event, and what it is called in a report.

    `hidden`: it is no collective by name. `syncs`: it is the reduction of gradients in a backward.
    """

    event: Event
    name: str
    hidden: bool = False
    syncs: bool = False

    @property
    def order(self) -> int:
        return self.event.order


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Mismatch:
    """A communication that only the ranks on one side of a condition come to; the others are elsewhere.

    `guard` is the outermost condition of its kind that it stands under.
    """

    communication: Communication
    guard: Guard
    why: Difference


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Departure:
    """A way out that some ranks take while the others go on to a communication."""

    exit: Event
    guard: Guard
    why: Difference
    communication: Communication


class Ranks:
    """Which ranks do what in a run."""

    def __init__(self, run: TrainingRun) -> None:
        self.run = run
        self._divided: dict[int, bool] = {}
        self.trained = {id(s.of) for e in run.of_kind("backward") for s in e.facts.of_kind(SourceKind.LOADER)}
        self.communications = tuple(self._communications())

    # ------------------------------------------------------------ what differs

    def differences(self, facts: Facts) -> list[Difference]:
        """Why a value differs between the ranks, as far as that is beyond doubt."""
        return [why for why in facts.differs if self._is_certain(why)]

    def _is_certain(self, why: Difference) -> bool:
        if why.kind is SourceKind.LOADER:
            return why.of is None or self.is_divided(why.of)
        return True

    def is_divided(self, loader: object) -> bool:
        """Does the loader give each rank examples of its own? No is the answer too where it is not known."""
        known = self._divided.get(id(loader))
        if known is None:
            known = self._divided[id(loader)] = self._is_divided(loader)
        return known

    def _is_divided(self, loader: object) -> bool:
        if any(event.subject is loader for event in self.run.of_kind("shard")):
            return True
        seen = [
            facts
            for event in self.run.of_kind("sampled", "items")
            if event.subject is loader
            for facts in leaves(event.details.get("index", event.details.get("items")))
        ]
        return any(facts.has(kind) for facts in seen for kind in _OF_RANKS)

    def measured(self, facts: Facts, loops: tuple[Loop, ...]) -> Difference | None:
        """Why a value differs that sums up a whole pass of this rank over examples of its own, a pass that is over
        inside these loops: a metric.
        """
        return next((why for why in self.differences(facts) if self._is_over(why, loops)), None)

    def led(self, facts: Facts, loops: tuple[Loop, ...]) -> Difference | None:
        """The same of a value that one rank had measured before it was broadcast."""
        return next((why for why in facts.led if self._is_certain(why) and self._is_over(why, loops)), None)

    def _is_over(self, why: Difference, loops: tuple[Loop, ...]) -> bool:
        if why.kind is not SourceKind.LOADER or why.of is None:
            return False
        passes = [event.loops for event in self.run.of_kind("iterate") if event.subject is why.of]
        if any(loop not in loops for each in passes for loop in each):
            return True
        return bool(passes) and not any(loop.over is why.of for loop in loops) and id(why.of) not in self.trained

    def deciding(self, guards: Iterable[Guard]) -> tuple[Guard, Difference] | None:
        """The first of these conditions that some ranks are on one side of and some on the other, and why."""
        for guard in guards:
            found = self.differences(guard.facts)
            if found:
                return guard, found[0]
        return None

    # ------------------------------------------------------------ what is communicated

    def _communications(self) -> Iterator[Communication]:
        run = self.run
        named = {event.site for event in run.of_kind("collective")}
        arming = {id(forward) for backward in run.of_kind("backward") for forward in self._armed_elsewhere(backward)}
        for event in run.events:
            if not _of_all_ranks(event):
                continue
            if event.kind == "collective":
                said = event.details.get("said")
                yield Communication(event, said or event.name, hidden=said is not None)
            elif event.kind in ("reduce gradients", "broadcast weights") and event.site not in named:
                name = "reduction of the gradients" if event.kind == "reduce gradients" else "broadcast of the weights"
                yield Communication(event, name, hidden=True)
            elif event.kind == "new group":
                yield Communication(event, "creation of a process group", hidden=True)
            elif event.kind == "wrap" and event.how in ("DDP", "FSDP"):
                yield Communication(event, f"construction of the {event.how} wrapper", hidden=True)
            elif event.kind == "forward":
                name = self._forward(event)
                if name:
                    yield Communication(event, name, hidden=True)
                elif id(event) in arming:
                    yield Communication(event, "forward whose backward reduces the gradients", hidden=True, syncs=True)
            elif event.kind == "backward" and self._syncs(event):
                yield Communication(event, "backward", hidden=True, syncs=True)

    def wraps_of(self, module: object) -> list[Event]:
        """How a module was wrapped, given the wrapper (or the module that was wrapped in place)."""
        return [event for event in self.run.of_kind("wrap") if event.wrapper is module]

    def _forward(self, event: Event) -> str:
        """What a forward through a wrapper communicates, "" for nothing."""
        for wrap in self.wraps_of(event.subject):
            if wrap.shards:
                return "forward, which gathers the shards of the weights"
            kept = wrap.details["options"].get("broadcast_buffers")
            if wrap.how == "DDP" and not is_false(kept) and _has_buffers(event.subject):
                return "forward, which broadcasts the buffers"
        return ""

    def _syncs(self, backward: Event) -> bool:
        """Are gradients reduced in this backward?"""
        for module in backward.modules:
            for wrap in self.wraps_of(module):
                if not wrap.averages:
                    continue
                forwards = [e for e in self.run.of_kind("forward") if e.subject is module and e.order < backward.order]
                if not (forwards and is_false(forwards[-1].syncs)):
                    return True
        return False

    def _armed_elsewhere(self, backward: Event) -> Iterator[Event]:
        """The wrapped forward that a backward reduces for, where some ranks come to the backward without it."""
        if self._syncs(backward):
            for module in backward.modules:
                forwards = [e for e in self.run.of_kind("forward") if e.subject is module and e.order < backward.order]
                if forwards and any(g.facts.differs and g not in backward.guards for g in forwards[-1].guards):
                    yield forwards[-1]

    # ------------------------------------------------------------ who does not take part

    def mismatches(self) -> Iterator[Mismatch]:
        """Communications that only some ranks come to, the first of each condition."""
        found = [one for key, sides in self._conditions().items() for one in self._unmatched(key, sides)]
        for one in found:
            if not self._is_awaited(one) and not any(self._meet(one, other) for other in found):
                yield one

    def _is_awaited(self, found: Mismatch) -> bool:
        """Do the others meet it with their next forward? DDP broadcasts its buffers in the first forward after one with
        gradient: ranks that validate in between have then done so, and do not when they train again. Only where they
        train again in the same pass does no validation remain without its forward in the end.
        """
        event, guard = found.communication.event, found.guard
        if not _validates(event, event.subject):
            return False
        if not all(_validates(c.event, event.subject) for c in self.communications if guard in c.event.guards):
            return False
        following = self._next(event, guard)
        forwards = [e for e in self.run.of_kind("forward") if e.subject is event.subject and not e.frozen]
        # What a forward does inside stands before it in the record.
        return following is not None and any(e is following or e.site in _calls(following) for e in forwards)

    def _next(self, event: Event, guard: Guard) -> Event | None:
        """What the ranks that do not come past this guard communicate next in the same pass of the loop around it."""
        around = event.loops[: guard.loops]
        for other in (c.event for c in self.communications):
            if other.order > event.order and other.loops[: len(around)] == around:
                if all(g.fork is not guard.fork for g in other.guards):
                    return other
        return None

    def _meet(self, a: Mismatch, b: Mismatch) -> bool:
        """Do some ranks come to the one where the others come to the other, as when one goes first?

        Their conditions may ask for more than the rank.
        """
        opposite = {(key, not holds) for key, holds in _ranks_in(a.guard)}
        if a.communication.name != b.communication.name or opposite.isdisjoint(_ranks_in(b.guard)):
            return False
        first, last = sorted((a.communication.order, b.communication.order))
        between = [c.event for c in self.communications if first < c.order < last]
        return all(a.guard in event.guards or b.guard in event.guards for event in between)

    def _conditions(self) -> dict[object, list[tuple[Guard, bool]]]:
        """The conditions that ranks answer differently, each with its guards and the answer that they stand for."""
        found: dict[object, list[tuple[Guard, bool]]] = {}
        seen: set[int] = set()
        for event in self.run.events:
            for guard in event.guards:
                if id(guard) not in seen:
                    seen.add(id(guard))
                    if guard.facts.differs and self.differences(guard.facts):
                        key, holds = atom(guard)
                        found.setdefault(key, []).append((guard, holds))
        return found

    def _unmatched(self, key: object, sides: list[tuple[Guard, bool]]) -> Iterator[Mismatch]:
        answers = {id(guard): holds for guard, holds in sides}
        unread = map(_Unread, self.run.of_kind("unread call"))
        events: list[Communication | _Unread] = [*self.communications, *unread]
        events.sort(key=lambda one: one.order)
        reported: set[object] = set()
        segment: dict[bool, list[tuple[Communication | _Unread, Guard]]] = {True: [], False: []}
        for one in [*events, None]:
            stands = [guard for guard in one.event.guards if id(guard) in answers] if one is not None else []
            if stands and len({answers[id(guard)] for guard in stands}) == 1 and one is not None:
                segment[answers[id(stands[0])]].append((one, stands[0]))
            elif not stands and not isinstance(one, _Unread):
                for found in self._compared(segment[True], segment[False]):
                    if found.guard.fork not in reported:
                        reported.add(found.guard.fork)
                        yield found
                segment = {True: [], False: []}

    def _compared(
        self, yes: list[tuple[Communication | _Unread, Guard]], no: list[tuple[Communication | _Unread, Guard]]
    ) -> Iterator[Mismatch]:
        """The first communication on each side that has none to match it on the other, if nothing unread may."""
        if any(isinstance(one, _Unread) for one, _ in yes) and any(isinstance(one, _Unread) for one, _ in no):
            return
        for side, other in ((yes, no), (no, yes)):
            here = [(one, guard) for one, guard in side if isinstance(one, Communication)]
            there = [(one, guard) for one, guard in other if isinstance(one, Communication)]
            if len(there) < len(other):
                continue  # code that was not read may take part
            index = next((i for i, (a, b) in enumerate(zip(here, there, strict=False)) if not _alike(a, b)), None)
            if index is None and len(here) > len(there):
                index = len(there)
            if index is None and not there:
                continue
            if index is None:
                index = _swapped(here, there)
            if index is None:
                continue
            communication, guard = here[index]
            if _surely(communication.event, guard):
                yield Mismatch(communication, guard, self.differences(guard.facts)[0])
            if len(here) == len(there):
                return  # one swapped pair is one finding

    def departures(self) -> Iterator[Departure]:
        """Exits that only some ranks take, each with the communication that the others go on to."""
        rejoined = {id(left): event.order for event in self.run.of_kind("rejoin") for left in event.exits}
        for event in self.run.of_kind("exit"):
            found = self.deciding(event.deciding)
            if found is None:
                continue
            end = rejoined.get(id(event), len(self.run.events))
            following = self._following(event, end)
            if following is not None:
                yield Departure(event, *found, following)
        for event in self.run.of_kind("caught"):
            found = self.deciding(event.deciding)
            skipped = [c for c in self.communications if any(c.event is one for one in event.skipped)]
            if found is not None and skipped:
                yield Departure(event, *found, skipped[0])

    def _following(self, event: Event, end: int) -> Communication | None:
        """The first communication that the ranks which stay go on to, and those which left do not."""
        deciding = set(map(id, event.deciding))
        forks = {id(guard.fork) for guard in event.guards}
        left = {answer for guard in event.deciding for answer in implied(guard)}
        reached = [
            c
            for c in self.communications
            if all(_met_by_all(guard) for guard in c.event.guards if id(guard.fork) not in forks)
            and not any(
                (key, not holds) in left
                for guard in c.event.guards
                if not guard.facts.differs
                for key, holds in implied(guard)
            )
        ]
        again = [
            c
            for c in reached
            if any(loop in c.event.loops for loop in event.left) and deciding.isdisjoint(map(id, c.event.guards))
        ]
        after = [c for c in reached if event.order < c.order < end]
        if again:
            return next((c for c in after if c in again), again[0])
        innermost = event.deciding[-1]
        mine = [c for c in self.communications if innermost in c.event.guards and c.order < event.order]
        mine = [c for c in mine if c.event.loops[: len(event.loops)] == event.loops]
        for index, communication in enumerate(after):
            if index >= len(mine) or mine[index].name != communication.name:
                return communication
        return None


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class _Unread:
    """A call of code that was not read, which may communicate."""

    event: Event

    @property
    def order(self) -> int:
        return self.event.order


_known: weakref.WeakKeyDictionary[TrainingRun, Ranks] = weakref.WeakKeyDictionary()


def ranks_of(run: TrainingRun) -> Ranks:
    """Which ranks do what in a run, worked out once."""
    found = _known.get(run)
    if found is None:
        found = _known[run] = Ranks(run)
    return found


# ---------------------------------------------------------------- conditions


def atom(guard: Guard) -> tuple[object, bool]:
    """What a condition asks, and the answer that this side of it stands for.

    `rank == 0`, `not rank`, `rank < 1` and `rank in (0, -1)` ask the same, and `rank != 0` the opposite.
    """
    if isinstance(guard.test, Data):
        return _answer(guard.test.identity, guard.holds)
    return (guard.fork if guard.test is None else ("value", id(guard.test))), guard.holds


def implied(guard: Guard) -> Iterator[tuple[object, bool]]:
    """All that is so where the condition holds (or does not) as this side of it says."""
    yield atom(guard)
    if isinstance(guard.test, Data):
        yield from _parts(guard.test.identity, guard.holds)


def _ranks_in(guard: Guard) -> set[tuple[object, bool]]:
    """What a condition asks of the rank's number, among other things."""
    return {(key, holds) for key, holds in implied(guard) if isinstance(key, tuple) and key[0] in _NUMBERS}


def picked(guard: Guard) -> frozenset[int]:
    """The ranks that come past a condition that asks for a few of them by number, as far as it names them."""
    return frozenset(n for key, holds in _ranks_in(guard) if holds and isinstance(key, tuple) for n in key[1])


def _parts(identity: object, holds: bool) -> Iterator[tuple[object, bool]]:
    while isinstance(identity, tuple) and len(identity) == 2 and identity[0] == "not":
        identity, holds = identity[1], not holds
    yield _answer(identity, holds)
    if isinstance(identity, tuple) and len(identity) == 3 and identity[0] == ("and" if holds else "or"):
        yield from _parts(identity[1], holds)
        right = identity[2]
        yield from _parts(right.identity if isinstance(right, Data) else right, holds)


def _answer(identity: object, holds: bool) -> tuple[object, bool]:
    while isinstance(identity, tuple) and len(identity) == 2 and identity[0] == "not":
        identity, holds = identity[1], not holds
    if isinstance(identity, str) and identity in _NUMBERS:
        return (identity, frozenset((0,))), not holds
    asked = _asked(identity)
    if asked is not None:
        return asked[0], asked[1] == holds
    return ("value", _key(identity)), holds


def _asked(identity: object) -> tuple[object, bool] | None:
    """The ranks that a comparison picks out, and whether it holds for them."""
    if not isinstance(identity, tuple) or len(identity) != 4 or identity[0] != "test":
        return None
    _, op, left, right = identity
    if isinstance(right, str) and right in _NUMBERS:
        left, right = right, left
        op = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}.get(op, op)
    if not isinstance(left, str) or left not in _NUMBERS:
        return None
    if isinstance(right, Sequence):
        numbers = [item.value for item in right.items or [] if isinstance(item, Const)]
        if right.items is None or len(numbers) < len(right.items) or op not in ("in", "not in"):
            return None
        return (left, frozenset(n for n in numbers if isinstance(n, int) and n >= 0)), op == "in"
    if isinstance(right, str) and right.isdigit():
        right = int(right)
    if not isinstance(right, int):
        return None
    if op in ("==", "!="):
        return (left, frozenset((right,))), op == "=="
    below = {"<": right, "<=": right + 1, ">=": right, ">": right + 1}.get(op)
    return None if below is None else ((left, frozenset(range(below))), op in ("<", "<="))


def _key(identity: object) -> object:
    """An identity as something that can be looked up."""
    if isinstance(identity, tuple):
        return tuple(_key(part) for part in identity)
    if isinstance(identity, Const):
        return repr(identity.value)
    if isinstance(identity, Data) and identity.identity is not identity:
        return _key(identity.identity)
    return identity if isinstance(identity, (str, int)) else id(identity)


# ---------------------------------------------------------------- communications


def _of_all_ranks(event: Event) -> bool:
    """Does it concern the whole group? One of some ranks, or one that is not known, is a matter of its own."""
    group = event.details.get("group")
    if event.kind == "new group" or group is None:
        return True
    return all(isinstance(one, Const) and one.value is None for one in options(group))


def _has_buffers(module: object) -> bool:
    return any(
        isinstance(part, Instance) and (part.is_a("torch.nn._BatchNorm") or is_true(part.attrs.get("%buffers")))
        for part in parts_of(unwrapped(module))
    )


def _validates(event: Event, module: object) -> bool:
    return bool(event.kind == "forward" and event.subject is module and event.frozen)


def _alike(a: tuple[Communication, Guard], b: tuple[Communication, Guard]) -> bool:
    """Do two ranks meet in these, one coming from one side of a condition and one from the other?"""
    return _meeting(*a) == _meeting(*b)


def _swapped(here: list[tuple[Communication, Guard]], there: list[tuple[Communication, Guard]]) -> int | None:
    """Where both sides communicate the same tensors, the first that they do in another order."""
    mine, theirs = ([id(c.event.subject) for c, _ in side if c.event.subject is not None] for side in (here, there))
    if mine == theirs or sorted(mine) != sorted(theirs) or len(mine) != len(here) or len(set(mine)) != len(mine):
        return None
    return next(index for index, (a, b) in enumerate(zip(mine, theirs, strict=True)) if a != b)


def _met_by_all(guard: Guard) -> bool:
    """Do all ranks answer a condition alike, one that the run meets? Not so where nobody knows who answers it."""
    return guard.facts.place.is_replicate and not guard.facts.differs


def _surely(event: Event, guard: Guard) -> bool:
    """Does it happen on the ranks that come past this condition, whatever the conditions of others below it say?"""
    inner = event.guards[event.guards.index(guard) + 1 :]
    return all(_met_by_all(each) or each.facts.differs for each in inner)


def _meeting(communication: Communication, guard: Guard) -> tuple[str, tuple[Loop, ...], int]:
    event = communication.event
    return communication.name, event.loops[: guard.loops], len(event.loops) - guard.loops


def call_under(event: Event, guard: Guard) -> Site | None:
    """The call that led from the condition to what stands in a function below it, if there is one."""
    calls = _calls(event)
    return calls[guard.frames] if guard.frames < len(calls) else None


def _calls(event: Event) -> tuple[Site | None, ...]:
    calls: tuple[Site | None, ...] = event.details.get("calls", ())
    return calls


def text_of(why: Difference) -> str:
    """What makes the ranks differ, in words."""
    words = {
        SourceKind.RANK: "the rank",
        SourceKind.LOCAL_RANK: "the local rank",
        SourceKind.LOADER: "this rank's own examples",
        SourceKind.TIME: "this rank's clock",
        SourceKind.DRAW: "a draw that the ranks do not share",
    }
    return words.get(why.kind, "the rank")


__all__ = [
    "Communication",
    "Departure",
    "Mismatch",
    "Ranks",
    "Value",
    "atom",
    "call_under",
    "picked",
    "ranks_of",
    "text_of",
]
