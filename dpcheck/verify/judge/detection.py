"""What would have been seen, and what was not looked at: without it, "equivalent" says little."""

from __future__ import annotations

import math

import numpy as np

from dpcheck.verify.judge import compare, counting
from dpcheck.verify.judge.compare import Tolerance
from dpcheck.verify.judge.defect import line_of, some, times
from dpcheck.verify.judge.evidence import Evidence
from dpcheck.verify.judge.explain import View
from dpcheck.verify.judge.objective import Judgement
from dpcheck.verify.result import Detection, SeenLoss


def detection(evidence: Evidence, meant: Judgement, tolerance: Tolerance) -> Detection:
    """The limits of this run."""
    views, objective = meant.views, meant.objective
    found = Detection(steps=[view.step for view in views])
    for view in views:
        found.parameters = max(found.parameters, _parameters(view))
        found.judged_parameters = max(found.judged_parameters, view.window.parameters())
        found.smallest_weight_error = _least(found.smallest_weight_error, _smallest_weight_error(view, tolerance))
        if objective.equal:
            would_be = _per_rank_mean(view)
            if would_be is not None:
                found.per_rank_mean = max(found.per_rank_mean or 0.0, would_be)
        for side in view.window.windows:
            for loss in counting.weighing(side.losses):
                path, line = line_of(loss.place)
                seen = SeenLoss(function=loss.function, path=path, line=line)
                if seen not in found.losses:
                    found.losses.append(seen)
    numbers = [counting.counts(view.window) for view in views]
    if numbers and all(numbers):
        found.hides_per_rank_mean = all(len(set(each)) == 1 for each in numbers)
    found.unseen = list(_unseen(evidence, meant, found))
    return found


def _parameters(view: View) -> int:
    """All that the ranks' optimizers step, whole."""
    shapes = {share.name: tuple(share.shape) for side in view.window.windows for share in side.weights}
    return sum(math.prod(shape) for shape in shapes.values())


def _smallest_weight_error(view: View, tolerance: Tolerance) -> float | None:
    """By which part one rank's weight in the mean must be off for the error to exceed the tolerance."""
    if view.own is None or not view.difference.norm:
        return None
    largest = max(float(np.linalg.norm(own)) for own in view.own)
    return tolerance.relative * len(view.own) * view.difference.norm / largest if largest else None


def _per_rank_mean(view: View) -> float | None:
    """The error, had every rank divided by its own count. With the right weights, g_i is n_i W / Σ n times its mean."""
    numbers = counting.counts(view.window)
    if view.own is None or not numbers or not all(numbers):
        return None
    total, ranks = sum(numbers), len(numbers)
    factors = [total / (ranks * ranks * count) for count in numbers]
    would_be = np.sum([factor * own for factor, own in zip(factors, view.own, strict=True)], axis=0)
    if len(set(numbers)) == 1:
        return 0.0
    return compare.relative_error(np.asarray(would_be), view.reference)


def _least(one: float | None, other: float | None) -> float | None:
    known = [each for each in (one, other) if each is not None]
    return min(known) if known else None


def _unseen(evidence: Evidence, meant: Judgement, found: Detection) -> list[str]:
    views, objective = meant.views, meant.objective
    said = []
    if found.hides_per_rank_mean:
        said.append("a mean over each rank's own targets: all ranks had as many, --uneven makes it show")
    elif found.hides_per_rank_mean is None and views:
        said.append("whether the ranks' targets were equally many: no loss of torch's was seen")
    skipped = [step for step in evidence.steps if step not in found.steps]
    if skipped and views:
        why = next((meant.refusals[step] for step in skipped if meant.refusals.get(step)), "")
        which = f"the gradients of {times(len(skipped), 'step')}: {', '.join(map(str, skipped))}"
        said.append(f"{which} ({why})" if why else which)
    if objective.unmatched:
        said.append(f"{times(len(objective.unmatched), 'tensor')} that only one side has: {some(objective.unmatched)}")
    if objective.coarse and objective.judged:
        said.append("errors below 1e-5, and errors of single tensors: this run was in float32")
    if any(view.own is None for view in views):
        said.append("the ranks' own gradients: the wrapper shards them before they can be seen")
    return said
