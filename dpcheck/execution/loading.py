"""The training loaders of a run, and what is known of how their data is divided among the ranks."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from dpcheck.execution.facts import Facts, SourceKind
from dpcheck.execution.run import Event, TrainingRun, escaped
from dpcheck.execution.values import Bound, Choice, Const, Data, Instance, Mapping, Sequence, Value, options


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Loading:
    """A loader that a backward's loss came from. `made` is its construction."""

    run: TrainingRun
    loader: Instance
    made: Event
    backward: Event
    iterations: tuple[Event, ...]

    @property
    def is_known(self) -> bool:
        """Has nothing that was not read had the loader or what it was made of in its hands?"""
        parts = (self.loader, self.made.dataset, self.made.sampler, self.made.batch_sampler)
        return self.run.complete and not any(escaped(option) for part in parts for option in options(part))

    @property
    def is_sharded_by_framework(self) -> bool:
        return any(e.subject is self.loader for e in self.run.of_kind("shard"))

    def samplers(self) -> Iterator[Instance]:
        """The samplers that the loader takes its indices from, also inside a batch sampler."""
        waiting: list[Value] = [self.made.sampler, self.made.batch_sampler]
        while waiting:
            for value in options(waiting.pop()):
                if isinstance(value, Instance):
                    yield value
                    inner = value.attrs.get("sampler")
                    if inner is not None:
                        waiting.append(inner)

    def shuffling_sampler(self) -> Event | None:
        """The construction of the rank-aware sampler that shuffles by its epoch, if there is one beyond doubt."""
        samplers = list(self.samplers())
        for event in self.run.of_kind("shard"):
            if any(event.subject is sampler for sampler in samplers) and "shuffle" in event.details:
                shuffle = event.details["shuffle"]
                sure = not isinstance(self.made.sampler, Choice) and isinstance(shuffle, Const) and shuffle.value
                return event if sure else None
        return None

    @property
    def is_divided(self) -> bool | None:
        """Does each rank get data of its own? None when that is not known."""
        if self.is_sharded_by_framework:
            return True
        seen = [*self.indices(), *self.items()]
        # A batch may also be divided after it was loaded, by what is taken of it or by who trains on it.
        if any(facts.has(SourceKind.RANK) for facts in (*seen, self.backward.facts)):
            return True
        if any(guard.by_rank for guard in self.backward.guards):
            return True
        if self._collates_own_data():
            return None
        return False if self.is_known and seen and not any(facts.place.is_unknown for facts in seen) else None

    def _collates_own_data(self) -> bool:
        """Has the object that makes the batches hold of data that was picked by rank, whatever it does with it?"""
        for function in options(self.made.details.get("collate_fn")):
            holder = function.receiver if isinstance(function, Bound) else function
            if any(facts.has(SourceKind.RANK) and facts.type != "int" for facts in leaves(holder)):
                return True
        return False

    def indices(self) -> list[Facts]:
        return [f for e in self._of("sampled") for f in leaves(e.details.get("index"))]

    def items(self) -> list[Facts]:
        return [f for e in self._of("items") for f in leaves(e.details.get("items"))]

    def _of(self, kind: str) -> list[Event]:
        return [event for event in self.run.of_kind(kind) if event.subject is self.loader]


def loadings(run: TrainingRun) -> Iterator[Loading]:
    """The loaders that a data-parallel run trains on."""
    seen: set[int] = set()
    for update in run.updates:
        if update.summed is None:
            continue
        for backward in update.backwards:
            for source in backward.facts.of_kind(SourceKind.LOADER):
                loader = source.of
                made = next((e for e in run.of_kind("loader") if e.subject is loader), None)
                if made is None or id(loader) in seen:
                    continue
                seen.add(id(loader))
                iterations = tuple(e for e in run.of_kind("iterate") if e.subject is loader)
                yield Loading(run, loader, made, backward, iterations)


def leaves(value: Value | None, depth: int = 0) -> list[Facts]:
    """The facts of everything that a value holds."""
    found: list[Facts] = []
    for one in options(value):
        if isinstance(one, Data):
            found.append(one.facts)
        elif depth > 5:
            continue
        elif isinstance(one, Sequence):
            for item in one.items if one.items is not None else [one.element]:
                found += leaves(item, depth + 1)
        elif isinstance(one, Mapping):
            for item in (*one.entries.values(), one.other):
                found += leaves(item, depth + 1)
        elif isinstance(one, Instance):
            for key, item in one.attrs.items():
                if not key.startswith("%"):
                    found += leaves(item, depth + 1)
    return found
