"""DP504: one rank writes what the others read, and nothing makes them wait for it."""

from __future__ import annotations

from collections.abc import Iterator

from dpcheck.execution import TrainingRun
from dpcheck.execution.communication import Ranks, atom, ranks_of
from dpcheck.execution.files import is_shared, same
from dpcheck.execution.run import Event, Guard
from dpcheck.findings.finding import Finding, Note
from dpcheck.rule import Confidence, Group, Rule, Severity

RULE = Rule(
    "DP504",
    "read-before-barrier",
    Group.COLLECTIVES,
    Severity.WARNING,
    "a file that one rank writes and the others read without waiting for it",
)


def check(run: TrainingRun) -> Iterator[Finding]:
    if not run.complete:
        return
    ranks = ranks_of(run)
    for read in run.of_kind("read"):
        if not is_shared(read.path):
            continue
        for write in run.of_kind("write"):
            guard = _rank_test(write)
            if guard is not None and write.order < read.order and same(write.path, read.path):
                if not _reads_its_own(write, read) and not _waits(ranks, write, read):
                    yield _finding(run, write, read, guard)
                    break


def _rank_test(event: Event) -> Guard | None:
    """The condition that lets only some ranks write."""
    return next((guard for guard in event.guards if guard.facts.by_number), None)


def _reads_its_own(write: Event, read: Event) -> bool:
    """Do only the ranks read that wrote?"""
    writers = {atom(guard) for guard in write.guards if guard.facts.by_number}
    return any(guard.facts.by_number and atom(guard) in writers for guard in read.guards)


def _waits(ranks: Ranks, write: Event, read: Event) -> bool:
    """Does any communication stand between the two?"""
    return any(write.order < each.order < read.order for each in ranks.communications)


def _finding(run: TrainingRun, write: Event, read: Event, guard: Guard) -> Finding:
    return Finding(
        RULE,
        "every rank reads this file, one of them writes it, and nothing makes the others wait until it is written",
        run.span(read.site),
        label="read by ranks that did not write it",
        notes=(
            Note(run.span(write.site), "written here, on some ranks only"),
            Note(run.span(guard.site), "this lets only some ranks write"),
        ),
        help="put dist.barrier() between the write and the read, where all ranks come",
        confidence=Confidence.MEDIUM,
    )
