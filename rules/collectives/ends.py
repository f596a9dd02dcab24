"""What the rules of this group say of the conditions that part the ranks."""

from __future__ import annotations

from dpcheck.execution import TrainingRun
from dpcheck.execution.communication import Mismatch, ranks_of
from dpcheck.execution.facts import Difference, SourceKind
from dpcheck.execution.run import Event, Guard
from dpcheck.rule import Confidence


def confidence_of(why: Difference) -> Confidence:
    """A rank's number differs for certain; its data, clock and draws may happen to agree."""
    return Confidence.HIGH if why.kind in (SourceKind.RANK, SourceKind.LOCAL_RANK) else Confidence.MEDIUM


def is_an_exit(run: TrainingRun, mismatch: Mismatch) -> bool:
    """Are ranks missing because they left on the way (DP502), or because they skip a backward for their data's sake?"""
    by_rank = mismatch.why.kind in (SourceKind.RANK, SourceKind.LOCAL_RANK)
    if mismatch.communication.syncs and not by_rank:
        return True
    return any(guard.fork is mismatch.guard.fork for left in ranks_of(run).departures() for guard in left.exit.deciding)


def measured_by(run: TrainingRun, left: Event) -> tuple[Guard, Difference] | None:
    """The condition of an exit that each rank answers by a metric of its own, if none of them asks for the rank."""
    if any(guard.facts.by_number for guard in left.deciding):
        return None
    for guard in left.deciding:
        why = ranks_of(run).measured(guard.facts, left.loops)
        if why is not None:
            return guard, why
    return None
