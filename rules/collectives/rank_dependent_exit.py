"""DP502: some ranks leave a loop or function, or skip a backward, and the others go on to a collective."""

from __future__ import annotations

from collections.abc import Iterator

from dpcheck.execution import TrainingRun
from dpcheck.execution.communication import Departure, Mismatch, ranks_of, text_of
from dpcheck.findings.finding import Finding, Note
from dpcheck.rule import Group, Rule, Severity

from .ends import confidence_of, is_an_exit, measured_by

RULE = Rule(
    "DP502",
    "rank-dependent-exit",
    Group.COLLECTIVES,
    Severity.ERROR,
    "a way out that some ranks take while the others go on to a collective or a backward",
)
_EXITS = {
    "break": "this break",
    "continue": "this continue",
    "return": "this return",
    "exit": "the end of the process here",
    "while": "the end of this loop",
    "for": "the end of this loop",
}


def check(run: TrainingRun) -> Iterator[Finding]:
    if not run.complete:
        return
    seen: set[object] = set()
    for departure in ranks_of(run).departures():
        if departure.exit.details.get("how") == "for" and departure.communication.syncs:
            continue  # shards of unequal size
        fork = departure.guard.fork
        if fork not in seen:
            seen.add(fork)
            if measured_by(run, departure.exit) is None:  # else each rank decides by its own metric
                yield _of_exit(run, departure)
    for mismatch in ranks_of(run).mismatches():
        if mismatch.communication.syncs and mismatch.guard.fork not in seen and is_an_exit(run, mismatch):
            seen.add(mismatch.guard.fork)
            yield _of_skip(run, mismatch)


def _of_exit(run: TrainingRun, found: Departure) -> Finding:
    how = _EXITS.get(found.exit.details.get("how", ""), "this error")
    name = found.communication.name
    return Finding(
        RULE,
        f"{how} depends on {text_of(found.why)}: the ranks that do not take it go on to the {name} and wait there",
        run.span(found.exit.site),
        label="taken by some ranks only",
        notes=(
            Note(run.span(found.guard.site), f"decided by {text_of(found.why)}"),
            Note(run.span(found.communication.event.site), f"the others wait in this {name}"),
        ),
        help="let the ranks agree before they leave: all-reduce the decision (MAX: any, MIN: all) or broadcast it",
        confidence=confidence_of(found.why),
    )


def _of_skip(run: TrainingRun, found: Mismatch) -> Finding:
    return Finding(
        RULE,
        f"whether this backward happens depends on {text_of(found.why)}: the ranks that have it wait for the others",
        run.span(found.guard.site),
        label="true on some ranks only",
        notes=(Note(run.span(found.communication.event.site), "this backward reduces gradients over all ranks"),),
        help="let every rank call backward, on a loss that is zero where there is nothing to learn from "
        "(0 * output.sum())",
        confidence=confidence_of(found.why),
    )
