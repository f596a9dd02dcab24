"""What entered the losses: how many targets each rank has, and what each of them weighs in the update."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from dpcheck.verify.judge import compare
from dpcheck.verify.judge.compare import Array
from dpcheck.verify.judge.defect import line_of
from dpcheck.verify.judge.evidence import Side, WindowEvidence
from dpcheck.verify.recording import Loss
from dpcheck.verify.result import Term

_SHOWN_WEIGHTS = 4


def counts(window: WindowEvidence) -> list[int]:
    """The targets that entered the losses of each rank's update; empty where no loss of torch's was seen."""
    found = [sum(loss.targets for loss in weighing(side.losses)) for side in window.windows]
    return found if any(found) else []


def weighing(losses: Sequence[Loss]) -> list[Loss]:
    """The losses that a backward reached, where that is known; those that were only looked at do not count."""
    weighed = [loss for loss in losses if loss.weighed]
    return weighed or list(losses)


def target_weights(
    window: WindowEvidence, actual: Array | None = None, own: Sequence[Array] | None = None
) -> list[list[float]]:
    """The distinct weights that each rank's targets have in the update, the averaging included."""
    share = 1 / len(window.ranks)
    if own is not None and actual is not None:
        scaled = compare.factor(actual, np.sum(own, axis=0))
        share = scaled[0] if scaled is not None and scaled[1] < 1e-6 else share
    found: list[list[float]] = []
    for side in window.ranks:
        weights = [each for each in window.target_weights(side) if each is not None]
        if not weights:
            return []
        found.append(_distinct(np.concatenate(weights) * share))
    return found


def _distinct(weights: Array) -> list[float]:
    rounded = {float(f"{weight:.6g}") for weight in np.unique(weights[weights != 0])}
    ordered = sorted(rounded)
    if len(ordered) <= _SHOWN_WEIGHTS:
        return ordered
    return [ordered[round(place * (len(ordered) - 1) / (_SHOWN_WEIGHTS - 1))] for place in range(_SHOWN_WEIGHTS)]


@dataclasses.dataclass(frozen=True)
class TermView:
    """One loss call of each rank beside that of the reference. `ratios`: weight in the update / what it should be."""

    loss: Loss
    targets: list[int]
    ratios: list[float]
    uniform: bool  # within a rank, all targets are off by the same factor

    @property
    def told(self) -> Term:
        return Term(
            function=self.loss.function,
            reduction=self.loss.reduction,
            path=line_of(self.loss.place)[0],
            line=self.loss.place.line,
            targets=self.targets,
            ratios=self.ratios,
        )

    @property
    def right(self) -> bool:
        return self.uniform and all(abs(ratio - 1) < 1e-5 for ratio in self.ratios)


def terms(window: WindowEvidence) -> list[TermView]:
    """The loss calls that pair up, one a rank and one of the reference, with their targets' weights side by side."""
    main = window.main
    if main is None:
        return []
    losses = [side.losses for side in window.windows]
    if not main.window.losses or any(len(own) != len(main.window.losses) for own in losses):
        return []
    own = [window.target_weights(side) for side in window.ranks]
    expected = window.target_weights(main)
    found = []
    for number, loss in enumerate(main.window.losses):
        calls = [each[number] for each in losses]
        weights = [each[number] for each in own]
        wanted = expected[number]
        if wanted is None or any(each is None for each in weights) or len({each.function for each in calls}) > 1:
            continue
        parts = [unmasked(each) for each in weights if each is not None]
        term = _term(calls, parts, unmasked(wanted), loss)
        if term is not None:
            found.append(term)
    return found


def shares(window: WindowEvidence, side: Side) -> list[float]:
    """For each loss that a backward reached, what its targets weigh together in the process's own gradient."""
    found = []
    for loss, weights in zip(side.window.losses, window.target_weights(side), strict=True):
        if weights is not None and len(weights):
            found.append(float(np.mean(weights)) * loss.targets)
    return found


def unmasked(weights: Array) -> Array:
    """What is masked has no part in the update."""
    kept: Array = weights[weights != 0]
    return kept


def _term(calls: Sequence[Loss], parts: Sequence[Array], wanted: Array, loss: Loss) -> TermView | None:
    """None where the targets of the reference are not those of the ranks, one after the other."""
    share = 1 / len(parts)
    if not len(wanted) or not all(map(len, parts)):
        return None
    thinned = (
        any(len(part) < call.targets for part, call in zip(parts, calls, strict=True)) or len(wanted) < loss.targets
    )
    if sum(map(len, parts)) == len(wanted) and not thinned:
        ratios, start = [], 0
        for part in parts:
            ratios.append(part * share / wanted[start : start + len(part)])
            start += len(part)
    elif _even(wanted) and all(map(_even, parts)) and sum(call.targets for call in calls) == loss.targets:
        ratios = [part[:1] * share / wanted[:1] for part in parts]
    else:
        return None
    uniform = all(_even(each) for each in ratios)
    return TermView(calls[0], [call.targets for call in calls], [float(np.mean(each)) for each in ratios], uniform)


def _even(values: Array) -> bool:
    return bool(np.ptp(values) <= 1e-5 * np.max(np.abs(values)))


def by_micro_batch(losses: Sequence[Loss], backwards: int) -> list[int]:
    """The targets of each micro-batch of a rank."""
    found = [0] * backwards
    for loss in weighing(losses):
        if loss.micro < backwards:
            found[loss.micro] += loss.targets
    return found


def weight_sentence(weights: Sequence[Sequence[float]], numbers: Sequence[int]) -> str:
    """`rank 1's single target weighs 3 × each of rank 0's`; empty where a rank's targets weigh differently."""
    if len(weights) < 2 or any(len(each) != 1 for each in weights):
        return ""
    heaviest = max(range(len(weights)), key=lambda rank: abs(weights[rank][0]))
    lightest = min(range(len(weights)), key=lambda rank: abs(weights[rank][0]))
    light = weights[lightest][0]
    if not light or abs(weights[heaviest][0] / light - 1) < 1e-6:
        return ""
    ratio = f"{weights[heaviest][0] / light:.3g}"
    single = numbers and numbers[heaviest] == 1
    what = f"rank {heaviest}'s single target weighs" if single else f"each of rank {heaviest}'s targets weighs"
    return f"{what} {ratio} × each of rank {lightest}'s"


def divided_by_own_count(term: TermView) -> bool:
    """Whether the targets of each rank are off as they are when the rank's own count divides."""
    total, ranks = sum(term.targets), len(term.targets)
    if not term.uniform or not all(term.targets):
        return False
    return all(
        abs(ratio * ranks * count / total - 1) < 1e-4 for ratio, count in zip(term.ratios, term.targets, strict=True)
    )


def targets_changed(window: WindowEvidence) -> bool:
    """Whether the reference's losses, call by call, hold more or fewer targets than those of the ranks together."""
    main = window.main
    if main is None or any(len(side.losses) != len(main.window.losses) for side in window.windows):
        return False
    calls = zip(main.window.losses, *(side.losses for side in window.windows), strict=True)
    return any(sum(loss.targets for loss in own) != whole.targets for whole, *own in calls)


def targets_lost(window: WindowEvidence) -> bool:
    """Whether the reference's losses saw fewer targets than the ranks' together: it did not compute on all of them."""
    main = window.main
    if main is None or not main.window.losses or not all(side.window.losses for side in window.ranks):
        return False
    targets = sum(loss.targets for side in window.ranks for loss in side.window.losses)
    return sum(loss.targets for loss in main.window.losses) < targets


def padding_changed(window: WindowEvidence) -> bool:
    """Whether the reference's losses run over more elements than the ranks' together, with as many targets."""
    main = window.main
    if main is None or not main.window.losses:
        return False
    elements = sum(loss.elements for side in window.windows for loss in side.losses)
    targets = sum(loss.targets for side in window.windows for loss in side.losses)
    there = sum(loss.elements for loss in main.window.losses)
    return there > elements and sum(loss.targets for loss in main.window.losses) == targets
