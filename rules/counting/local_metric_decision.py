"""DP601: a decision that all ranks must share is taken from a metric of one rank's own examples."""

from __future__ import annotations

from collections.abc import Iterator

from dpcheck.execution import TrainingRun
from dpcheck.execution.communication import ranks_of
from dpcheck.execution.facts import Difference, Site
from dpcheck.execution.loading import leaves
from dpcheck.execution.values import Instance, is_false, text_of
from dpcheck.findings.finding import Finding, Note
from dpcheck.rule import Group, Rule, Severity

from ..collectives.ends import measured_by

RULE = Rule(
    "DP601",
    "local-metric-decision",
    Group.COUNTING,
    Severity.ERROR,
    "a scheduler, an early stop or a choice of checkpoint that follows a metric of the rank's own examples",
)
_PLATEAU = "torch.optim.lr_scheduler.ReduceLROnPlateau"


def check(run: TrainingRun) -> Iterator[Finding]:
    if not run.complete:
        return
    seen: set[Site] = set()
    for find in (_exits, _led, _collectives, _schedules, _rates, _checkpoints, _monitors):
        for finding, site in find(run):
            if site not in seen:
                seen.add(site)
                yield finding


def _exits(run: TrainingRun) -> Iterator[tuple[Finding, Site]]:
    """Ranks that leave a loop, each when its own metric says so."""
    for left in ranks_of(run).departures():
        measured = measured_by(run, left.exit)
        if measured is not None:
            guard, why = measured
            note = Note(run.span(left.exit.site), "the ranks leave at different times")
            yield _finding(run, guard.site, why, "when training stops", note), guard.site


def _led(run: TrainingRun) -> Iterator[tuple[Finding, Site]]:
    """Loops that all ranks leave together, when the metric of one of them says so."""
    for event in run.of_kind("break"):
        for guard in event.guards:
            why = ranks_of(run).led(guard.facts, event.loops)
            if why is not None:
                note = Note(run.span(event.site), "all ranks leave here, by what one of them measured")
                yield _finding(run, guard.site, why, "when training stops", note), guard.site


def _rates(run: TrainingRun) -> Iterator[tuple[Finding, Site]]:
    """Learning rates that each rank sets when its own metric says so."""
    for event in run.of_kind("set rate"):
        for guard in event.guards:
            why = ranks_of(run).measured(guard.facts, event.loops)
            if why is not None:
                note = Note(run.span(event.site), "the learning rate is set here")
                yield _finding(run, guard.site, why, "the learning rate", note), guard.site


def _collectives(run: TrainingRun) -> Iterator[tuple[Finding, Site]]:
    """Collectives that a rank comes to when its own metric says so."""
    for mismatch in ranks_of(run).mismatches():
        event = mismatch.communication.event
        why = None if mismatch.guard.facts.by_number else ranks_of(run).measured(mismatch.guard.facts, event.loops)
        if why is not None:
            note = Note(run.span(event.site), f"ranks wait for each other in this {mismatch.communication.name}")
            yield _finding(run, mismatch.guard.site, why, "what the ranks do together", note), mismatch.guard.site


def _schedules(run: TrainingRun) -> Iterator[tuple[Finding, Site]]:
    """Schedules that each rank steps by its own metric: the learning rates drift apart."""
    for event in run.of_kind("scheduler step"):
        if not isinstance(event.subject, Instance) or not event.subject.is_a(_PLATEAU):
            continue
        for facts in event.facts:
            why = next((why for why in ranks_of(run).differences(facts) if why.of is not None), None)
            if why is not None:
                yield _finding(run, event.site, why, "the learning rate", None), event.site
                break


def _checkpoints(run: TrainingRun) -> Iterator[tuple[Finding, Site]]:
    """Weights that are kept when one rank's metric says so."""
    for event in run.of_kind("write"):
        for guard in event.guards:
            why = ranks_of(run).measured(guard.facts, event.loops)
            if why is not None:
                note = Note(run.span(event.site), "written when it does")
                yield _finding(run, guard.site, why, "which weights are kept", note), guard.site
                break


def _monitors(run: TrainingRun) -> Iterator[tuple[Finding, Site]]:
    """Logged numbers that a callback goes by: it is handed the one of its own rank."""
    for event in run.of_kind("log"):
        monitor = next(
            (m for m in run.of_kind("monitor") if text_of(m.name) and text_of(m.name) == text_of(event.name)), None
        )
        if monitor is None or not is_false(event.reduced):
            continue
        why = next((why for facts in leaves(event.subject) for why in ranks_of(run).differences(facts)), None)
        if why is not None and why.of is not None:
            note = Note(run.span(monitor.site), "the callback that goes by it")
            yield _finding(run, event.site, why, text_of(monitor.decides), note), event.site


def _finding(run: TrainingRun, site: Site, why: Difference, what: str, note: Note | None) -> Finding:
    notes = [Note(run.span(why.site), "these examples are this rank's own")] if why.site is not None else []
    if note is not None:
        notes.append(note)
    return Finding(
        RULE,
        f"this rank's own examples decide {what}, though all ranks share the outcome: each has another metric",
        run.span(site),
        label="follows a metric that is not reduced over the ranks",
        notes=tuple(notes),
        help="all-reduce the sums and counts that the metric is made of before anything is decided by it",
    )
