"""DP504: one rank writes what the others read, and nothing makes them wait for it."""

from __future__ import annotations

from collections.abc import Iterator

from dpcheck.execution import TrainingRun
from dpcheck.execution.communication import Ranks, atom, picked, ranks_of
from dpcheck.execution.files import by_ranks, is_shared, same
from dpcheck.execution.run import Event, Guard
from dpcheck.execution.values import Const
from dpcheck.findings.finding import Finding, Note
from dpcheck.rule import Confidence, Group, Rule, Severity

RULE = Rule(
    "DP504",
    "read-before-barrier",
    Group.COLLECTIVES,
    Severity.WARNING,
    "a file that one rank writes and the others read without waiting for it",
)
_TO_ONE = ("gather", "gather_object", "reduce")
_FROM_ONE = ("broadcast", "broadcast_object_list", "scatter", "scatter_object_list")


def check(run: TrainingRun) -> Iterator[Finding]:
    if not run.complete:
        return
    ranks = ranks_of(run)
    for read in run.of_kind("read"):
        if not is_shared(read.path) or not by_ranks(run, read):
            continue
        for write in run.of_kind("write", "download"):
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
    """Does something stand between the two that the readers come out of only after the writer has come to it?"""
    between = (each.event for each in ranks.communications if write.order < each.order < read.order)
    return any(_hears_of(event, write) for event in between)


def _hears_of(event: Event, write: Event) -> bool:
    """Does every rank wait in it for the one that writes? Not if the others send to one rank or get from another."""
    if event.kind != "collective":
        return True
    if event.name in _TO_ONE:
        return False
    if event.name not in _FROM_ONE:
        return True
    writers = {number for guard in write.guards for number in picked(guard)}
    source = event.details.get("src")
    return not writers or not isinstance(source, Const) or source.value in writers


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
