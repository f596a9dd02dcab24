"""DP203: a shuffling DistributedSampler runs over several epochs and nobody tells it the epoch."""

from __future__ import annotations

from collections.abc import Iterator

from dpcheck.execution import TrainingRun
from dpcheck.execution.loading import Loading, loadings
from dpcheck.execution.run import Event, Loop, escaped
from dpcheck.findings.finding import Finding, Note
from dpcheck.rule import Group, Rule, Severity

RULE = Rule(
    "DP203",
    "epoch-not-set",
    Group.DATA,
    Severity.WARNING,
    "a shuffling sampler over several epochs that is never told the epoch",
)


def check(run: TrainingRun) -> Iterator[Finding]:
    if not run.complete:
        return
    told = run.of_kind("set epoch")
    for loading in loadings(run):
        sampler = loading.shuffling_sampler()
        if sampler is None or escaped(sampler.subject) or not loading.is_known:
            continue
        loop = _epoch_loop(loading, sampler)
        if loop is None or any(event.subject is sampler.subject and loop in event.loops for event in told):
            continue
        yield Finding(
            RULE,
            "nothing calls set_epoch on the sampler that shuffles for this loop: every epoch has the same order",
            run.span(loop.site),
            label="the epoch loop",
            notes=(
                Note(run.span(sampler.site), "this sampler shuffles by its seed and epoch"),
                Note(run.span(loading.made.site), "the loader that uses it"),
            ),
            help="call sampler.set_epoch(epoch) at the start of every epoch",
        )


def _epoch_loop(loading: Loading, sampler: Event) -> Loop | None:
    """The innermost loop in which the loader is gone through anew each time, made outside of it."""
    for event in loading.iterations:
        for loop in reversed(event.loops):
            # A loop that was getting its next element when the loader was gone through is that pass itself.
            if loop.over is loading.loader or loop in event.fetching:
                continue
            if loop in sampler.loops or loop in loading.made.loops:
                continue
            if loop.runs_once:
                break
            return loop
    return None
