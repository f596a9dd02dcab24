"""DP202: an iterable data set yields the same examples on every rank."""

from __future__ import annotations

from collections.abc import Iterator

from dpcheck.execution import TrainingRun
from dpcheck.execution.facts import Facts, SourceKind
from dpcheck.execution.loading import Loading, loadings
from dpcheck.execution.values import Const, Generator, Instance
from dpcheck.findings.finding import Finding, Note
from dpcheck.rule import Group, Rule, Severity

RULE = Rule(
    "DP202",
    "unsharded-stream",
    Group.DATA,
    Severity.ERROR,
    "an iterable data set that yields the same examples on every rank",
)


def check(run: TrainingRun) -> Iterator[Finding]:
    yield from _generated(run)
    for loading in loadings(run):
        if not (isinstance(loading.made.iterable, Const) and loading.made.iterable.value is True):
            continue
        if loading.is_divided is not False or not _is_same(loading):
            continue
        notes = [Note(run.span(loading.backward.site), "every rank trains on what it loads")]
        dataset = loading.made.dataset
        if isinstance(dataset, Instance) and dataset.site is not None and dataset.site != loading.made.site:
            notes.insert(0, Note(run.span(dataset.site), "the stream"))
        yield Finding(
            RULE,
            "every rank reads the same examples from this stream: neither the rank nor a per-rank seed enters it",
            run.span(loading.made.site),
            label="not split by rank",
            notes=tuple(notes),
            help="split it by rank, and by loader worker: islice(stream, rank, None, world_size)",
        )


def _generated(run: TrainingRun) -> Iterator[Finding]:
    """Loops over a generator whose batches, and so the loss, are the same on every rank."""
    for update in run.updates:
        if update.summed is None or not run.complete:
            continue
        for backward in update.backwards:
            facts = backward.facts
            loop = next((loop for loop in reversed(backward.loops) if isinstance(loop.over, Generator)), None)
            if loop is None or not facts.place.is_replicate or not backward.modules or facts.has(SourceKind.LOADER):
                continue
            divided = facts.has(SourceKind.RANK) or facts.has(SourceKind.LOCAL_RANK)
            drawn = any(loop in source.loops for source in facts.of_kind(SourceKind.DRAW))
            if divided or drawn or not facts.has(SourceKind.COUNTER) or any(g.by_rank for g in backward.guards):
                continue
            yield Finding(
                RULE,
                "every rank goes through the same batches of this generator: nothing in it depends on the rank",
                run.span(loop.site),
                label="the same batches on every rank",
                notes=(Note(run.span(backward.site), "every rank trains on them"),),
                help="skip through the batches by rank: islice(batches, rank, None, world_size)",
            )


def _is_same(loading: Loading) -> bool:
    """Is it shown that every rank sees the same items?"""
    items = loading.items()
    return any(facts.place.is_replicate for facts in items) and all(map(_is_alike, items))


def _is_alike(facts: Facts) -> bool:
    """The same on every rank. A mask is taken for uneven, as rows have different lengths: that makes no rank differ."""
    if facts.has(SourceKind.RANK) or facts.has(SourceKind.LOCAL_RANK):
        return False
    uneven = facts.total.is_uneven and not facts.sources and not facts.differs and not facts.place.is_unknown
    return facts.place.is_replicate or uneven
