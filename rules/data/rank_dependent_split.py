"""DP206: a split or shuffle before the sharding comes out differently on each rank."""

from __future__ import annotations

from collections.abc import Iterator

from dpcheck.execution import TrainingRun
from dpcheck.execution.facts import Site
from dpcheck.execution.sharding import divisions, is_generators, orders
from dpcheck.findings.finding import Finding, Note
from dpcheck.rule import Group, Rule, Severity

RULE = Rule(
    "DP206",
    "rank-dependent-split",
    Group.DATA,
    Severity.ERROR,
    "a split or shuffle before the sharding that comes out differently on each rank",
)


def check(run: TrainingRun) -> Iterator[Finding]:
    if not run.complete:
        return
    splits = {event.site for event in run.of_kind("split")}
    seen: set[Site] = set()
    for division in divisions(run):
        for draw in orders(run, division):
            state = draw.of
            shared = division.loader is None and state.seeded and is_generators(run, state) and draw.site not in splits
            if draw.site is None or draw.site in seen or shared:
                continue  # a permutation with a seed of its own: rank-seeded-sampler
            seen.add(draw.site)
            how = "splits" if draw.site in splits else "orders"
            seeded = "seeded by rank" if state.seeded else "not seeded"
            notes = [Note(run.span(division.by.site), "the ranks divide what they take for the same data here")]
            if state.site is not None and state.site != draw.site:
                notes.insert(0, Note(run.span(state.site), "differs between the ranks"))
            yield Finding(
                RULE,
                f"each rank {how} the data in a way of its own before it is divided among the ranks: their parts "
                "overlap, and what one rank holds out another one trains on",
                run.span(draw.site),
                label=f"the random state is {seeded}",
                notes=tuple(notes),
                help="draw it from a generator that is seeded alike on all ranks",
            )
