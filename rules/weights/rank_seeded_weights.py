"""DP102: the seed in force when the model is built depends on the rank, and the wrapper does not broadcast."""

from __future__ import annotations

from collections.abc import Iterator

from dpcheck.execution import TrainingRun
from dpcheck.findings.finding import Finding, Note
from dpcheck.rule import Group, Rule, Severity

from .initial import unhelped
from .unsynchronized_weights import joins

RULE = Rule(
    "DP102",
    "rank-seeded-weights",
    Group.WEIGHTS,
    Severity.ERROR,
    "initial weights drawn under a seed that depends on the rank",
)


def check(run: TrainingRun) -> Iterator[Finding]:
    for case in unhelped(run):
        if not case.state.seeded or not case.state.by_rank or case.state.site is None:
            continue
        yield Finding(
            RULE,
            "the model is built under this seed, which differs between the ranks, and nothing copies the weights: "
            "every rank starts from its own",
            run.span(case.state.site),
            label="depends on the rank",
            notes=(
                Note(run.span(case.model.site), "the model is built here"),
                Note(run.span(case.joined.site), joins(case.joined)),
            ),
            help="seed alike on all ranks, build the model, and add the rank to the seed only afterwards",
        )
