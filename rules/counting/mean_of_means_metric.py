"""DP602: means over different numbers of targets are averaged as if they weighed the same."""

from __future__ import annotations

from collections.abc import Iterator

from dpcheck.execution import TrainingRun
from dpcheck.execution.facts import Site, SourceKind
from dpcheck.findings.finding import Finding, Note
from dpcheck.rule import Confidence, Group, Rule, Severity

RULE = Rule(
    "DP602",
    "mean-of-means-metric",
    Group.COUNTING,
    Severity.WARNING,
    "an evaluation metric that averages the means of ranks or batches with different counts",
)


def check(run: TrainingRun) -> Iterator[Finding]:
    if not run.complete:
        return
    trained = {id(s.of) for e in run.of_kind("backward") for s in e.facts.of_kind(SourceKind.LOADER)}
    seen: set[Site] = set()
    for event in run.of_kind("mean of means"):
        loaders = [source.of for source in event.facts.of_kind(SourceKind.LOADER)]
        if event.site in seen or not loaders or any(id(loader) in trained for loader in loaders):
            continue  # the loss that is trained on is another rule's
        seen.add(event.site)
        whose = "ranks" if event.over == "ranks" else "batches"
        yield Finding(
            RULE,
            f"this averages the means of {whose} that hold different numbers of targets: the fewer targets, the more "
            "each of them counts",
            run.span(event.site),
            label=f"mean over {whose}",
            notes=(
                Note(run.span(event.mean.site), f"the mean of one of these {whose}"),
                *(Note(run.span(why.site), why.text) for why in event.mean.count.evidence),
            ),
            help="add up the sums and the counts over all batches and ranks, and divide once",
            confidence=Confidence.HIGH if any(why.sure for why in event.mean.count.evidence) else Confidence.MEDIUM,
        )
