"""DP304: the gradient comes out W times too large."""

from __future__ import annotations

from collections.abc import Iterator

from dpcheck.execution import TrainingRun
from dpcheck.execution.run import Judged
from dpcheck.findings.finding import Finding
from dpcheck.rule import Group, Rule, Severity

from .terms import notes_of, own_collective

RULE = Rule(
    "DP304",
    "extra-world-size-factor",
    Group.OBJECTIVE,
    Severity.WARNING,
    "a factor or a sum over the ranks that makes the gradient world_size times too large",
)


def check(run: TrainingRun) -> Iterator[Finding]:
    for update in run.updates:
        for judged in update.judged():
            if judged.world is None or judged.world <= _meant(judged) or own_collective(run, judged):
                continue
            if not (judged.counted or judged.place.is_ratio):
                continue
            growing = [s for s in judged.scalings if s.world > 0 and s.reduced is None]
            if judged.counted and not growing:
                # `world_size / global_count` in one factor: what it holds of W is one too many for a sum.
                growing = [s for s in judged.scalings if s.world == 0 and s.reduced is not None]
            sums = [event for event in judged.reductions if event.op == "sum"]
            if growing:
                yield Finding(
                    RULE,
                    "this factor of the world size is one too many: reduced over the ranks, the gradients come out "
                    "world_size times too large",
                    run.span(growing[-1].site),
                    label="times the world size",
                    notes=notes_of(run, judged),
                    help="drop the factor, or divide a loss sum by a count that is all-reduced",
                )
            elif sums:
                yield Finding(
                    RULE,
                    "this adds up the ranks' gradients, which are means already: they come out world_size times too "
                    "large",
                    run.span(sums[-1].site),
                    label="a sum over the ranks",
                    notes=notes_of(run, judged),
                    help="divide by the world size, or use ReduceOp.AVG"
                    if not update.wraps
                    else "drop this reduction: the wrapper has averaged the gradients during backward",
                )


def _meant(judged: Judged) -> int:
    """The powers of W by which a loss grows with a global count: one process multiplies by the same number."""
    return sum(s.world for s in judged.scalings if s.reduced is not None and s.world > 0 and not s.divides)
