"""DP201: a training loader over a map-style data set that no one divides among the ranks."""

from __future__ import annotations

from collections.abc import Iterator

from dpcheck.execution import TrainingRun
from dpcheck.execution.facts import SourceKind
from dpcheck.execution.loading import Loading, loadings
from dpcheck.execution.values import Const
from dpcheck.findings.finding import Finding, Note
from dpcheck.rule import Group, Rule, Severity

RULE = Rule(
    "DP201",
    "unsharded-loader",
    Group.DATA,
    Severity.ERROR,
    "a training loader that gives every rank the whole data set",
)


def check(run: TrainingRun) -> Iterator[Finding]:
    for loading in loadings(run):
        if not (isinstance(loading.made.iterable, Const) and loading.made.iterable.value is False):
            continue
        if loading.is_divided is not False or not _is_whole(loading):
            continue
        wraps = [event for update in run.updates for event in update.wraps]
        notes = [Note(run.span(wraps[0].site), "data-parallel from here on")] if wraps else []
        notes.append(Note(run.span(loading.backward.site), "every rank trains on what it loads"))
        yield Finding(
            RULE,
            "nothing divides the data of this loader among the ranks: every rank goes through all of it",
            run.span(loading.made.site),
            label="no sampler that knows the rank",
            notes=tuple(notes),
            help="give it a DistributedSampler and call set_epoch, or let the framework prepare the loader",
        )


def _is_whole(loading: Loading) -> bool:
    """Is it shown that neither the indices nor the items depend on the rank?"""
    indices, items = loading.indices(), loading.items()
    if not indices:
        return False
    for facts in (*indices, *items):
        if facts.place.is_unknown or facts.has(SourceKind.RANK) or facts.has(SourceKind.LOCAL_RANK):
            return False
    # A data set that draws its examples at random and ignores the index is not divided, yet gives each rank its own.
    by_index = frozenset().union(*(facts.sources for facts in indices))
    indexed = any(not by_index.isdisjoint(facts.sources) for facts in items)
    return indexed or not any(facts.has(SourceKind.DRAW) for facts in items)
