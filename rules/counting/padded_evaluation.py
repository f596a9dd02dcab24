"""DP603: a sampler repeats examples to even out the shards, and the metric over all ranks counts them twice."""

from __future__ import annotations

from collections.abc import Iterator

from dpcheck.execution import TrainingRun
from dpcheck.execution.facts import SourceKind
from dpcheck.execution.loading import leaves
from dpcheck.execution.run import Event, escaped
from dpcheck.execution.values import Const, Instance, options
from dpcheck.findings.finding import Finding, Note
from dpcheck.rule import Group, Rule, Severity

RULE = Rule(
    "DP603",
    "padded-evaluation",
    Group.COUNTING,
    Severity.NOTE,
    "a metric over all ranks that counts the examples twice that the sampler repeats",
    pedantic=True,
)


def check(run: TrainingRun) -> Iterator[Finding]:
    if not run.complete:
        return
    sources = [event.facts.of_kind(SourceKind.LOADER) for event in run.of_kind("backward")]
    if not all(sources):
        return  # any loader may be the one that this loss came from
    trained = {id(source.of) for each in sources for source in each}
    for made in run.of_kind("loader"):
        sampler = _padding_sampler(run, made)
        if sampler is None or id(made.subject) in trained or _is_trimmed(run, made) or _may_train(run, made):
            continue
        counted = next((e for e in run.of_kind("collective") if _comes_from(e, made)), None)
        if counted is None:
            continue
        yield Finding(
            RULE,
            "this sampler repeats examples until all ranks hold equally many, and the metric over all ranks counts the "
            "repeated ones twice",
            run.span(sampler.site),
            label="pads to a multiple of the ranks",
            notes=(
                Note(run.span(made.site), "the loader that evaluates with it"),
                Note(run.span(counted.site), "what it yields is brought together here"),
            ),
            help="give each rank its own part without repeats (Subset over range(rank, len(data), world_size))",
        )


def _may_train(run: TrainingRun, made: Event) -> bool:
    """Are weights handed to code that was not read while the loader is gone through? It may call backward."""
    handed = [event for event in run.of_kind("handed over") if not event.frozen]
    return any(loop.over is made.subject for event in handed for loop in event.loops)


def _padding_sampler(run: TrainingRun, made: Event) -> Event | None:
    """The construction of the loader's DistributedSampler, if it is beyond doubt and drops nothing."""
    for event in run.of_kind("shard"):
        sampler = event.subject
        if sampler is not made.sampler or not isinstance(sampler, Instance) or escaped(sampler):
            continue
        drops = sampler.attrs.get("drop_last")
        if isinstance(drops, Const) and drops.value is False:
            return event
    return None


def _comes_from(event: Event, made: Event) -> bool:
    """Does a collective bring together what was computed from the batches of this loader?"""
    if event.name not in ("all_reduce", "all_gather", "gather", "reduce"):
        return False
    return any(s.of is made.subject for facts in leaves(event.subject) for s in facts.of_kind(SourceKind.LOADER))


def _is_trimmed(run: TrainingRun, made: Event) -> bool:
    """Is something that all ranks put together cut to a length, as one does to drop the repeats?"""
    return any(
        s.of is made.subject
        for e in run.of_kind("trim")
        for one in options(e.subject)
        for facts in leaves(one)
        for s in facts.of_kind(SourceKind.LOADER)
    )
