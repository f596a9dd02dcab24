"""DP106: state outside the gradients is moved by this rank's batches and never reduced."""

from __future__ import annotations

from collections.abc import Iterator

from dpcheck.execution import TrainingRun
from dpcheck.execution.facts import Site, Source, SourceKind
from dpcheck.execution.states import Change
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
    seen: set[Site] = set()
    for update in run.updates:
        if update.summed is None or update.partial:
            continue
        for backward in update.backwards:
            changes = [s for s in backward.facts.of_kind(SourceKind.STATE) if _is_moved_by_batches(s)]
            for source in sorted(changes, key=lambda s: s.site or run.entry):
                if source.site is None or source.site in seen:
                    continue
                seen.add(source.site)
                notes = [Note(run.span(backward.site), "the loss of this backward is computed with it")]
                notes += [Note(run.span(e.site), "every rank sees other examples") for e in update.wraps[:1]]
                yield Finding(
                    RULE,
                    f"the state `{source.of.name}` is updated from this rank's own batch and nothing reduces it: each "
                    "rank follows its own examples, or the other ranks' are lost where one rank's copy is broadcast",
                    run.span(source.site),
                    label="moved by the local batch",
                    notes=tuple(notes),
                    help="all-reduce the sums and counts that it is made of before the update",
                )


def _is_moved_by_batches(source: Source) -> bool:
    change = source.of
    return isinstance(change, Change) and change.is_kept and not any(guard.by_rank for guard in change.guards)
