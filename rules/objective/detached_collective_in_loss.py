"""DP306: a collective that keeps gradients from the other ranks stands in the loss."""

from __future__ import annotations

from collections.abc import Iterator

from dpcheck.execution import TrainingRun
from dpcheck.execution.facts import Cut
from dpcheck.execution.run import Judged
from dpcheck.findings.finding import Finding, Note
from dpcheck.rule import Confidence, Group, Rule, Severity

from .groups import of_gradients, reduced_over
from .terms import lacks_world_size, reducers

RULE = Rule(
    "DP306",
    "detached-collective-in-loss",
    Group.OBJECTIVE,
    Severity.ERROR,
    "a collective inside the loss that autograd does not see",
)


def check(run: TrainingRun) -> Iterator[Finding]:
    worst: dict[Cut, tuple[Confidence, Judged]] = {}
    for update in run.updates:
        if update.summed is None:
            continue
        for judged in update.judged():
            cut = judged.term.detached
            if cut is None or judged.backward.facts.opaque or reduced_over(run, cut.site) != of_gradients(run, update):
                continue
            confidence = _confidence(judged)
            if confidence is not None and (cut not in worst or confidence is Confidence.HIGH):
                worst[cut] = (confidence, judged)
    for cut, (confidence, judged) in worst.items():
        yield Finding(
            RULE,
            f"{_cause(cut)}, and {_effect(judged)}",
            run.span(cut.site),
            label="no gradient comes back from the other ranks",
            notes=tuple(_notes(run, judged)),
            help="use the collectives of torch.distributed.nn.functional: their backward adds up the ranks' gradients",
            confidence=confidence,
        )


def _confidence(judged: Judged) -> Confidence | None:
    """How sure it is that gradient is missing; None where there is none, or where it may be made up for.

    A loss that all ranks compute alike from everything misses the factor W alone, and may have it: then it is exact.
    """
    cut = judged.term.detached
    grows = any(s.world > 0 for s in judged.scalings) or (judged.update.summed or 0) > 0 or bool(judged.repeats)
    if cut is not None and cut.written and lacks_world_size(judged):
        return None  # the division is to blame (DP303)
    if judged.place.is_replicate and judged.world is not None:
        return Confidence.HIGH if judged.world < 0 else None
    if judged.place.is_local:
        return Confidence.HIGH  # this rank's own rows alone: no factor makes up for it
    return None if grows or judged.term.unsure else Confidence.MEDIUM


def _notes(run: TrainingRun, judged: Judged) -> Iterator[Note]:
    yield from (reducing := list(reducers(run, judged.update)))
    backward = run.span(judged.backward.site)
    if all(note.span != backward for note in reducing):
        yield Note(backward, "the loss is backpropagated here")


def _cause(cut: Cut) -> str:
    if cut.written:
        return "the backward of this collective hands on this rank's own part of the gradient alone"
    return "autograd does not see this collective"


def _effect(judged: Judged) -> str:
    if judged.place.is_replicate:
        return "each rank's gradient is its own share of the whole, which is averaged: world_size times too small"
    if not judged.place.is_local:
        return "each rank's gradient is only its own share of that of a loss made from all ranks' examples"
    return "what this rank's loss says of the other ranks' examples never reaches a gradient"
