"""DP209: noise, masks or augmentations are drawn from a random state that is the same on every rank."""

from __future__ import annotations

from collections.abc import Iterator

from dpcheck.execution import TrainingRun
from dpcheck.execution.facts import Source, SourceKind
from dpcheck.execution.loading import leaves
from dpcheck.execution.randomness import RandomState
from dpcheck.execution.run import Event, Update
from dpcheck.execution.values import Const
from dpcheck.findings.finding import Finding, Note, Span
from dpcheck.rule import Group, Rule, Severity

RULE = Rule(
    "DP209",
    "same-noise-on-every-rank",
    Group.DATA,
    Severity.NOTE,
    "noise, masks or augmentations that are the same on every rank",
    pedantic=True,
)


def check(run: TrainingRun) -> Iterator[Finding]:
    for update in run.updates:
        if update.summed is None:
            continue
        for backward in update.backwards:
            loaders = [source.of for source in backward.facts.of_kind(SourceKind.LOADER)]
            if not loaders:
                continue  # then the examples themselves are drawn
            picks, changes = _drawn_by_loaders(run, loaders)
            for draw in backward.facts.of_kind(SourceKind.DRAW):
                if draw.site is None or not _repeats(draw, update, backward) or draw in picks:
                    continue
                if draw not in changes and _is_single(run, draw):
                    continue
                drawn = run.span(draw.site)
                notes = [Note(run.span(backward.site), "it enters the loss of this backward")]
                seed = run.span(draw.of.site) if draw.of.site is not None else drawn
                if _stands_at_loop(run, drawn, draw):
                    # What a library draws while it loads stands at the loop; the seed says more.
                    notes.insert(0, Note(drawn, "drawn while this loader is gone through"))
                    place, label = seed, "seeded alike on all ranks"
                else:
                    place, label = drawn, "the same on every rank"
                    if seed != drawn:
                        notes.insert(0, Note(seed, "seeded alike on all ranks here"))
                yield Finding(
                    RULE,
                    "the random state that is drawn from for every batch is the same on all ranks: the examples at one "
                    "place of the ranks' batches get the same draw",
                    place,
                    label=label,
                    notes=tuple(notes),
                    help="add the rank to the seed of the generator, or seed by rank once the model is built",
                )


def _repeats(draw: Source, update: Update, backward: Event) -> bool:
    """Is it drawn in the loop over the batches, and alike on all ranks?"""
    state = draw.of
    if not isinstance(state, RandomState) or not state.seeded or not state.place.is_replicate:
        return False
    return any(loop in draw.loops for loop in (*backward.loops[-1:], *update.step.loops[-1:]))


def _drawn_by_loaders(run: TrainingRun, loaders: list[object]) -> tuple[frozenset[Source], frozenset[Source]]:
    """The draws that decide which examples a rank sees, and those that change an example once it is picked.

    A draw whose seed counts the examples belongs to its example, and is the same in one process. Of a stream nobody
    knows which of its draws come before the ranks part.
    """
    picks: set[Source] = set()
    changes: set[Source] = set()
    for event in run.of_kind("sampled", "items"):
        made = next((e for e in run.of_kind("loader") if e.subject is event.subject), None)
        if made is None or not any(event.subject is loader for loader in loaders):
            continue
        mapped = isinstance(made.iterable, Const) and made.iterable.value is False
        for facts in leaves(event.details.get("items") if event.kind == "items" else event.details.get("index")):
            own = event.kind == "items" and mapped and facts.has(SourceKind.RANK)
            for draw in facts.of_kind(SourceKind.DRAW):
                (changes if own and not _counts_examples(draw) else picks).add(draw)
    return frozenset(picks), frozenset(changes - picks)


def _counts_examples(draw: Source) -> bool:
    return isinstance(draw.of, RandomState) and any(
        source.kind in (SourceKind.COUNTER, SourceKind.RANK) for source in draw.of.sources
    )


def _is_single(run: TrainingRun, draw: Source) -> bool:
    """One number for a whole batch is one number for all ranks' batches, too, where one process trains."""
    return any(event.site == draw.site and event.single for event in run.of_kind("draw"))


def _stands_at_loop(run: TrainingRun, drawn: Span, draw: Source) -> bool:
    loops = [run.span(loop.site) for loop in draw.loops]
    return any((loop.path, loop.line) == (drawn.path, drawn.line) for loop in loops)
