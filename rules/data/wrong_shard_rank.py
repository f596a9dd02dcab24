"""DP204: data is divided by a number that is not the rank, or into a number of parts that is not the world size."""

from __future__ import annotations

from collections.abc import Iterator

from dpcheck.execution import TrainingRun
from dpcheck.execution.divisions import flows
from dpcheck.execution.facts import Site
from dpcheck.execution.run import Event
from dpcheck.execution.sharding import sharded_by
from dpcheck.execution.values import Const, Data, Instance, Value, options
from dpcheck.findings.finding import Finding, Note
from dpcheck.rule import Group, Rule, Severity

RULE = Rule(
    "DP204",
    "wrong-shard-rank",
    Group.DATA,
    Severity.ERROR,
    "data divided by the local rank, a device count or a constant instead of rank and world size",
)


def check(run: TrainingRun) -> Iterator[Finding]:
    seen: set[Site] = set()
    for event in run.of_kind("shard", "division"):
        if event.site in seen or not run.is_data_parallel or not _is_used(run, event):
            continue
        what = _wrong(run, event)
        if what is not None:
            seen.add(event.site)
            yield _finding(run, event, *what)


def _wrong(run: TrainingRun, event: Event) -> tuple[str, Value] | None:
    """What stands in the place of the rank or of the world size, in words."""
    names = ("rank", "num_replicas") if event.kind == "shard" else ("start", "step")
    rank, parts = (event.details.get(name) for name in names)
    if _is(rank, "world size") or _is(parts, "rank"):
        return "rank and world size are swapped here", rank if isinstance(rank, Data) else parts  # type: ignore[return-value]
    if _is(rank, "local rank") and not (event.kind == "division" and event.how in ("pick", "block")):
        return "this is the rank within one machine: the ranks of other machines get the same part", rank  # type: ignore[return-value]
    if _is(parts, "device count") and not _starts_one_a_device(run):
        return "this counts the devices of one machine, not the ranks", parts  # type: ignore[return-value]
    if _is_number(parts) and (_is(rank, "rank") or _is_number(rank)) and event.kind == "shard":
        return "this number of parts is written in: it is the number of ranks of one way to start the script", parts  # type: ignore[return-value]
    if _is_number(rank) and event.kind == "shard" and not _is_number(parts):
        return "every rank asks for this same part", rank  # type: ignore[return-value]
    if event.kind == "division" and event.how == "stride" and _is(rank, "rank") and _is_number(parts):
        return "this stride is written in: it is the number of ranks of one way to start the script", parts  # type: ignore[return-value]
    return None


def _is(value: Value | None, identity: str) -> bool:
    return isinstance(value, Data) and value.identity == identity


def _is_number(value: Value | None) -> bool:
    return isinstance(value, Const) and isinstance(value.value, int) and not isinstance(value.value, bool)


def _starts_one_a_device(run: TrainingRun) -> bool:
    """Does the script start one process for each device, and no more on other machines?"""
    return any(
        _is(each, "device count") for event in run.of_kind("launch") for each in options(event.processes)
    ) and not any(
        isinstance(event.world_size, Data) and event.world_size.made is not None for event in run.of_kind("group")
    )


def _is_used(run: TrainingRun, event: Event) -> bool:
    """Does the run train on what is divided so?"""
    for update in run.updates:
        for backward in update.backwards if update.summed is not None else ():
            if event.kind == "division":
                if flows(event.sources, backward.facts):
                    return True
            elif any(sharded_by(run, s.of) is event for s in backward.facts.sources if isinstance(s.of, Instance)):
                return True
    return False


def _finding(run: TrainingRun, event: Event, what: str, value: Value) -> Finding:
    made = getattr(value, "site", None)
    site = made if isinstance(value, Const) and made is not None and made.path == event.site.path else event.site
    notes = [Note(run.span(event.site), "the data is divided here")] if site != event.site else []
    if made is not None and made not in (site, event.site):
        notes.append(Note(run.span(made), "this number"))
    return Finding(
        RULE,
        f"{what}: some examples are seen by several ranks and others by none",
        run.span(site),
        label="not what divides the data among all ranks",
        notes=tuple(notes),
        help="divide by dist.get_rank() and dist.get_world_size(); a DistributedSampler asks for them itself",
    )
