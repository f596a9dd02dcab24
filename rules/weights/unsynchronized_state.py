"""DP106: state outside the gradients is moved by this rank's batches and never reduced."""

from __future__ import annotations

from collections.abc import Iterator

from dpcheck.execution import TrainingRun
from dpcheck.execution.facts import Source, SourceKind
from dpcheck.execution.states import Change, registered
from dpcheck.execution.values import is_false
from dpcheck.findings.finding import Finding, Note
from dpcheck.rule import Group, Rule, Severity

RULE = Rule(
    "DP106",
    "unsynchronized-state",
    Group.WEIGHTS,
    Severity.WARNING,
    "state outside the gradients that is updated from the local batch and never reduced",
)


def check(run: TrainingRun) -> Iterator[Finding]:
    if not run.complete:
        return
    seen: set[tuple[str, int]] = set()
    for update in run.updates:
        if update.summed is None or update.partial:
            continue
        for backward in update.backwards:
            copied = any(e.armed and not is_false(e.options.get("broadcast_buffers")) for e in update.wraps)
            changes = [s for s in backward.facts.of_kind(SourceKind.STATE) if _is_moved_by_batches(s, copied)]
            for source in sorted(changes, key=lambda s: s.site or run.entry):
                if source.site is None:
                    continue
                span = run.span(source.site)
                if (span.path, span.line) in seen:
                    continue  # `state.mul_(decay).add_(batch)` moves it twice
                seen.add((span.path, span.line))
                notes = [Note(run.span(backward.site), "the loss of this backward is computed with it")]
                notes += [Note(run.span(e.site), "every rank sees other examples") for e in update.wraps[:1]]
                yield Finding(
                    RULE,
                    f"the state `{source.of.name}` is updated from this rank's own batch and nothing reduces it: each "
                    "rank follows its own examples, or the other ranks' are lost where one rank's copy is broadcast",
                    span,
                    label="moved by the local batch",
                    notes=tuple(notes),
                    help="all-reduce the sums and counts that it is made of before the update",
                )


def _is_moved_by_batches(source: Source, copied: bool) -> bool:
    """`copied`: the wrapper hands rank 0's buffers to the others before each forward."""
    change = source.of
    if not isinstance(change, Change) or not change.is_kept:
        return False
    if any(guard.by_rank for guard in change.guards):
        # What one rank keeps for itself is its own affair, unless the others compute with it.
        return copied and change.name in registered(change.owner)
    return True
