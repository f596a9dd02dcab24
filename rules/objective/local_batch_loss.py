"""DP307: a loss that compares the examples of a batch with each other sees this rank's batch alone."""

from __future__ import annotations

from collections.abc import Iterator

from dpcheck.execution import TrainingRun
from dpcheck.findings.finding import Finding, Note
from dpcheck.rule import Group, Rule, Severity

from .terms import reducers

RULE = Rule(
    "DP307",
    "local-batch-loss",
    Group.OBJECTIVE,
    Severity.NOTE,
    "a loss that compares the examples of a batch with each other, on this rank's batch alone",
    pedantic=True,
)


def check(run: TrainingRun) -> Iterator[Finding]:
    for update in run.updates:
        if update.summed is None:
            continue
        for backward in update.backwards:
            coupled = backward.facts.coupled
            if coupled is None:
                continue
            yield Finding(
                RULE,
                "this loss compares the examples of a batch with each other, and sees only those of this rank: it is "
                "another objective than that of one process with the whole batch",
                run.span(coupled.loss),
                label="over the local batch",
                notes=(
                    Note(run.span(coupled.site), "the examples of this rank's batch meet here"),
                    *reducers(run, update),
                ),
                help="gather the embeddings with torch.distributed.nn.functional.all_gather first",
            )
