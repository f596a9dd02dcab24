"""DP604: what one rank measured on its own examples is reported as if it were everyone's."""

from __future__ import annotations

from collections.abc import Iterator

from dpcheck.execution import TrainingRun
from dpcheck.execution.communication import ranks_of
from dpcheck.execution.facts import Site, SourceKind
from dpcheck.execution.run import Event
from dpcheck.findings.finding import Finding, Note
from dpcheck.rule import Group, Rule, Severity

RULE = Rule(
    "DP604",
    "local-metric-reported",
    Group.COUNTING,
    Severity.NOTE,
    "a number of one rank's own examples that is reported for all of them",
    pedantic=True,
)


def check(run: TrainingRun) -> Iterator[Finding]:
    if not run.complete:
        return
    seen: set[Site] = set()
    for event in run.of_kind("report"):
        why = next((w for facts in event.facts for w in ranks_of(run).differences(facts)), None)
        if why is None or why.kind is not SourceKind.LOADER or event.site in seen or not _is_one_rank(event):
            continue
        if any(facts.by_number for facts in event.facts) or event.says_whose:
            continue
        seen.add(event.site)
        yield Finding(
            RULE,
            "one rank reports a number of its own examples, and nothing says that it is not everyone's",
            run.span(event.site),
            label="one rank's own",
            notes=(Note(run.span(why.site), "these examples are this rank's own"),) if why.site is not None else (),
            help="all-reduce its sum and count first, or say in the text that it is one rank's",
        )


def _is_one_rank(event: Event) -> bool:
    return any(guard.facts.by_number for guard in event.guards)
