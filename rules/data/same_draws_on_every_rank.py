"""DP208: the batches are drawn from a random state that is the same on every rank."""

from __future__ import annotations

from collections.abc import Iterator

from dpcheck.execution import TrainingRun
from dpcheck.execution.facts import Source, SourceKind
from dpcheck.execution.randomness import RandomState
from dpcheck.execution.run import Event, Update
from dpcheck.findings.finding import Finding, Note
from dpcheck.rule import Group, Rule, Severity

RULE = Rule(
    "DP208",
    "same-draws-on-every-rank",
    Group.DATA,
    Severity.ERROR,
    "batches drawn at random from a state that is the same on every rank",
)


def check(run: TrainingRun) -> Iterator[Finding]:
    if not run.complete:
        return
    seen: set[object] = set()
    for update in run.updates:
        if update.summed is None:
            continue
        for backward in update.backwards:
            draws = [draw for draw in backward.facts.of_kind(SourceKind.DRAW) if _repeats(draw, update, backward)]
            if not draws or not _is_the_same(backward):
                continue
            draw = min(draws, key=lambda each: each.site or run.entry)
            if draw.site is None or draw.site in seen:
                continue
            seen.add(draw.site)
            notes = [Note(run.span(backward.site), "every rank trains on it")]
            if draw.of.site is not None and draw.of.site != draw.site:
                notes.insert(0, Note(run.span(draw.of.site), "seeded alike on all ranks here"))
            yield Finding(
                RULE,
                "the examples are drawn from a random state that is the same on every rank: all ranks train on the "
                "same batch",
                run.span(draw.site),
                label="the same on every rank",
                notes=tuple(notes),
                help="add the rank to the seed of what draws the batches",
            )


def _repeats(draw: Source, update: Update, backward: Event) -> bool:
    """Is it drawn anew for every step, and alike on all ranks?"""
    state = draw.of
    if not isinstance(state, RandomState) or not state.seeded or not state.place.is_replicate:
        return False
    return any(loop in draw.loops for loop in (*backward.loops[-1:], *update.step.loops[-1:]))


def _is_the_same(backward: Event) -> bool:
    """Is the loss computed from nothing that differs between the ranks?"""
    facts = backward.facts
    own = (SourceKind.RANK, SourceKind.LOCAL_RANK, SourceKind.LOADER, SourceKind.TIME)
    return facts.place.is_replicate and not any(map(facts.has, own)) and not any(g.by_rank for g in backward.guards)
