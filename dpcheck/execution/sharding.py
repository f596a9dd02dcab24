"""What the training data of a run went through before it was divided among the ranks."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from dpcheck.execution.divisions import flows
from dpcheck.execution.facts import Facts, Source, SourceKind
from dpcheck.execution.loading import leaves
from dpcheck.execution.randomness import RandomState
from dpcheck.execution.run import Event, TrainingRun, Update, escaped
from dpcheck.execution.values import Instance, Value, options


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Division:
    """A place where data is divided among the ranks, and a backward whose loss comes from this rank's part.

    `facts` is what was known of the data before it was divided; `by` the construction of the sampler (or of the
    loader that a framework shares out), or the slice, pick or test that knows the rank.
    """

    update: Update
    backward: Event
    by: Event
    facts: Facts
    loader: Instance | None


def divisions(run: TrainingRun) -> Iterator[Division]:
    """The divisions that a data-parallel run trains by."""
    for update in run.updates:
        if update.summed is None:
            continue
        for backward in update.backwards:
            for event in run.of_kind("division"):
                if event.order < backward.order and event.facts is not None and flows(event.sources, backward.facts):
                    yield Division(update, backward, event, event.facts, None)
            for source in backward.facts.of_kind(SourceKind.LOADER):
                if isinstance(source.of, Instance):
                    yield from _by_sampler(run, update, backward, source.of)


def _by_sampler(run: TrainingRun, update: Update, backward: Event, loader: Instance) -> Iterator[Division]:
    """A loader whose indices a sampler, or a framework, divides: its examples are the same ones on all ranks."""
    indices = [f for e in run.of_kind("sampled") if e.subject is loader for f in leaves(e.details.get("index"))]
    if not indices or not all(f.has(SourceKind.RANK) and f.has(SourceKind.COUNTER) for f in indices):
        return
    by = sharded_by(run, loader)
    if by is None or escaped(loader) or any(escaped(one) for one in options(loader.attrs.get("dataset"))):
        return
    own = frozenset(source for f in indices for source in f.sources)
    for event in run.of_kind("items"):
        if event.subject is loader:
            for facts in leaves(event.details.get("items")):
                # What the sampler itself draws is its own business, and what is seeded by an index its example's.
                kept = frozenset(
                    source for source in facts.sources if source not in own and not _is_seeded(source, own)
                )
                yield Division(update, backward, by, dataclasses.replace(facts, sources=kept), loader)


def _is_seeded(draw: Source, own: frozenset[Source]) -> bool:
    return isinstance(draw.of, RandomState) and not own.isdisjoint(draw.of.sources)


def sharded_by(run: TrainingRun, loader: Instance) -> Event | None:
    """The construction of the sampler that shards a loader's indices, or the framework's own doing."""
    held: list[Value] = [loader]
    for name in ("sampler", "batch_sampler"):
        for one in options(loader.attrs.get(name)):
            held.append(one)
            if isinstance(one, Instance):
                held += options(one.attrs.get("sampler"))
    return next((e for e in run.of_kind("shard") if any(e.subject is one for one in held)), None)


def orders(run: TrainingRun, division: Division) -> Iterator[Source]:
    """The draws that put data in an order (or chose a part of it) before it was divided, alike for no two ranks.

    What is drawn while a loader with a sampler is gone through changes single examples.
    """
    sites = {event.site for event in run.of_kind("draw") if event.permutes}
    loops = {loop for event in run.of_kind("backward") for loop in event.loops[-1:]}
    for draw in division.facts.of_kind(SourceKind.DRAW):
        state = draw.of
        if draw.site in sites and isinstance(state, RandomState) and state.place.is_local:
            if division.loader is None or loops.isdisjoint(draw.loops):
                yield draw


def is_generators(run: TrainingRun, state: RandomState) -> bool:
    """Is it the state of a generator of the script's own, not a library's global one?"""
    return state.site is not None and all(event.site != state.site for event in run.of_kind("seed"))
