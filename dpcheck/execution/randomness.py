"""Random states: what each generator was seeded by, and so whether the ranks draw alike."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from dpcheck.execution import expressions
from dpcheck.execution.facts import Difference, Site, Source, SourceKind
from dpcheck.execution.placement import REPLICATE, SHARD, UNKNOWN, Placement
from dpcheck.execution.trail import Joinable
from dpcheck.execution.values import (
    Bound,
    Choice,
    Const,
    Data,
    Function,
    Instance,
    Mapping,
    Sequence,
    Value,
    is_none,
    is_true,
    options,
)

if TYPE_CHECKING:
    from dpcheck.execution.interpreter import Interpreter


@dataclasses.dataclass(frozen=True, slots=True)
class RandomState(Joinable):
    """A generator of random numbers as it stands: seeded by what and where, or never seeded.

    `place` is that of its draws: Replicate when all ranks draw alike, Shard when each draws its own.
    """

    place: Placement
    seeded: bool
    site: Site | None = None
    sources: frozenset[Source] = frozenset()

    @property
    def by_rank(self) -> bool:
        return any(source.kind in (SourceKind.RANK, SourceKind.LOCAL_RANK) for source in self.sources)

    def joined(self, other: RandomState) -> RandomState:
        """Seeded in one of two ways, or one after the other: known as far as the ranks draw alike after either."""
        if self == other:
            return self
        if self.place != other.place or not (self.seeded and other.seeded):
            return _UNKNOWN_STATE
        return RandomState(self.place, True, self.site, self.sources | other.sources)


_LIBRARIES = ("torch", "numpy", "python")
_UNSEEDED = RandomState(SHARD, seeded=False)
_UNKNOWN_STATE = RandomState(UNKNOWN, seeded=False)


def random_state(it: Interpreter, generator: Value | None, library: str) -> RandomState:
    """The state that a draw takes: the generator's, or the library's global one."""
    for one in options(generator):
        if isinstance(one, Instance):
            seed = one.attrs.get("seed_value")
            if is_none(seed):
                return _UNSEEDED if is_true(one.attrs.get("fresh")) else RandomState(REPLICATE, True, one.site)
            if seed is not None:
                return _seeded(it, seed, getattr(seed, "site", None) or one.site)
            return _UNKNOWN_STATE
        if not is_none(one):
            return _UNKNOWN_STATE
    state = it.machine.get(f"random {library}")
    if isinstance(state, RandomState):
        return state
    return _UNKNOWN_STATE if it.machine.get("maybe seeded") else _UNSEEDED


_UNTOLD = (SourceKind.COUNTER, SourceKind.LOADER, SourceKind.MODULE, SourceKind.DRAW)
_TOLD = (SourceKind.OPTION, SourceKind.RANK, SourceKind.LOCAL_RANK, SourceKind.TIME)


def may_seed(it: Interpreter, value: Value, depth: int = 0) -> bool:
    """May code that was not read find a seed in what it is handed: a number, or settings with one among them?

    The numbers of a shape, of a pass, of a batch and what a model makes of it are none; nor are those that modules and
    data sets hold.
    """
    if isinstance(value, Const):
        return type(value.value) is int
    if isinstance(value, Data):
        facts = value.facts
        if facts.type not in ("", "int", "number") or any(map(facts.has, _UNTOLD)):
            return False
        return any(map(facts.has, _TOLD)) or (facts.type == "" and facts.place.is_unknown)
    if isinstance(value, (Function, Bound)):
        function = value.function if isinstance(value, Bound) else value
        return isinstance(function, Function) and id(function.record) in it.seeders
    if depth > _DEEPEST or (isinstance(value, Instance) and any(map(value.is_a, _WITHOUT_SEEDS))):
        return False
    inside: list[Value] = []
    if isinstance(value, Sequence):
        inside = value.items or [v for v in (value.element,) if v is not None]
    elif isinstance(value, Mapping):
        inside = [*value.entries.values(), *(v for v in (value.other,) if v is not None)]
    elif isinstance(value, Instance):
        inside = [v for name, v in value.attrs.items() if isinstance(v, Value) and not name.startswith("%")]
    elif isinstance(value, Choice):
        inside = list(value.options)
    return any(may_seed(it, part, depth + 1) for part in inside)


_DEEPEST = 2
_WITHOUT_SEEDS = ("torch.nn.Module", "torch.optim.Optimizer", "torch.utils.data.Dataset", "torch.utils.data.DataLoader")


def _seeded(it: Interpreter, seed: Value, site: Site | None) -> RandomState:
    facts = expressions.facts_of(it, seed)
    place = facts.place
    if place.is_replicate:
        place = SHARD if facts.has(SourceKind.TIME) else REPLICATE
    elif facts.has(SourceKind.RANK) or facts.has(SourceKind.LOCAL_RANK) or place.is_local:
        place = SHARD
    return RandomState(place, True, site, facts.sources)


def draw(it: Interpreter, state: RandomState, site: Site, single: bool = False, permutes: bool = False) -> Source:
    """A draw from a state. `single`: of one number for all the batch. `permutes`: of an order, or of a few of many."""
    it.record("draw", site, None, state=state, single=single, permutes=permutes)
    return Source(SourceKind.DRAW, site, state, tuple(it.loops))


def differing(state: RandomState, site: Site) -> tuple[Difference, ...]:
    """Why the ranks draw different numbers from a state, if they do."""
    return (Difference(SourceKind.DRAW, site, state),) if state.place.is_local else ()


def seed(it: Interpreter, library: str, value: Value, site: Site) -> None:
    """Seed a library's global state, or with "all" every library's. None: with a seed that the system draws."""
    state = _UNSEEDED if is_none(value) else dataclasses.replace(_seeded(it, value, site), site=site)
    for name in _LIBRARIES if library == "all" else (library,):
        it.trail.set(it.machine, f"random {name}", state)
    it.seedings += 1
    it.record("seed", site, None, library=library, state=state)


def note_unread_call(it: Interpreter, given: list[Value], seeds: bool | None) -> None:
    """Code that was not read may have seeded the generators and started the group: from here on nobody knows.

    A seed that the script itself has set stands, unless the code was handed something to seed with. `seeds`: what is
    known better, of code that was executed before.
    """
    if not it.machine.get("unread"):
        it.trail.set(it.machine, "unread", True)
    if seeds is None:
        seeds = any(may_seed(it, value) for value in given)
        if not it.machine.get("maybe seeded"):
            it.trail.set(it.machine, "maybe seeded", True)
    if seeds:
        it.seedings += 1
        for library in _LIBRARIES:
            it.trail.set(it.machine, f"random {library}", _UNKNOWN_STATE)
