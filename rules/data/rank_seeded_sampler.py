"""DP205: the order that the ranks divide among themselves is seeded differently on each of them."""

from __future__ import annotations

from collections.abc import Iterator

from dpcheck.execution import TrainingRun
from dpcheck.execution.facts import Facts, Site, SourceKind
from dpcheck.execution.sharding import Division, divisions, is_generators, orders, sharded_by
from dpcheck.execution.values import Const, Data, Instance, Value
from dpcheck.findings.finding import Finding, Note
from dpcheck.rule import Group, Rule, Severity

RULE = Rule(
    "DP205",
    "rank-seeded-sampler",
    Group.DATA,
    Severity.ERROR,
    "a sampler or shared permutation whose seed differs between the ranks",
)
_OF_ONE_RANK = (SourceKind.RANK, SourceKind.LOCAL_RANK, SourceKind.TIME)


def check(run: TrainingRun) -> Iterator[Finding]:
    seen: set[Site] = set()
    for division in divisions(run):
        for value, label in _seeds(run, division):
            site = getattr(value, "site", None) or division.by.site
            if site in seen:
                continue
            seen.add(site)
            yield _finding(run, division, site, label)
        if division.loader is None:
            for draw in orders(run, division):
                state = draw.of
                if not state.seeded or not is_generators(run, state) or state.site in seen:
                    continue
                seen.add(state.site)
                yield _finding(run, division, state.site, "depends on the rank", drawn=draw.site)


def _seeds(run: TrainingRun, division: Division) -> Iterator[tuple[Value, str]]:
    """The seeds (and epochs, which are added to them) of the sampler that are not the same on every rank."""
    if not isinstance(division.loader, Instance):
        return
    sampler = sharded_by(run, division.loader)
    if sampler is None:
        return
    shuffle = sampler.details.get("shuffle")
    if isinstance(shuffle, Const) and not shuffle.value:
        return
    seed = sampler.details.get("seed")
    if isinstance(seed, Data) and _differs(seed.facts):
        yield seed, "differs between the ranks"
    for event in run.of_kind("set epoch"):
        epoch = event.details.get("epoch")
        if event.subject is sampler.subject and isinstance(epoch, Data) and _differs(epoch.facts):
            yield epoch, "the epoch is added to the seed, and differs between the ranks"


def _differs(facts: Facts) -> bool:
    """Is it another number on each rank? What ranks read from files of their own may well be the same."""
    return (
        not facts.has(SourceKind.FILE)
        and not facts.place.is_replicate
        and any(facts.has(kind) for kind in _OF_ONE_RANK)
    )


def _finding(run: TrainingRun, division: Division, site: Site, label: str, drawn: Site | None = None) -> Finding:
    notes = [Note(run.span(drawn), "the order is drawn here")] if drawn is not None and drawn != site else []
    if division.by.site != site:
        notes.append(Note(run.span(division.by.site), "each rank takes its part of its own order here"))
    return Finding(
        RULE,
        "the order that is divided among the ranks is seeded differently on each of them: their parts overlap, and "
        "some examples are seen by none",
        run.span(site),
        label=label,
        notes=tuple(notes),
        help="seed the order alike on all ranks; add the rank only to the seeds of augmentation and noise",
    )
