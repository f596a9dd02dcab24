"""Was the averaged gradient that of one process on the whole batch? Step by step; the worst step is explained."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from dpcheck.verify.judge import compare, counting
from dpcheck.verify.judge.compare import Tensors, Tolerance
from dpcheck.verify.judge.defect import Defect, percent, some, times
from dpcheck.verify.judge.evidence import Evidence, WindowEvidence, known
from dpcheck.verify.judge.explain import View, explain
from dpcheck.verify.judge.fairness import fed_unlike
from dpcheck.verify.judge.sync import whole_gradient, whole_unclipped
from dpcheck.verify.recording import Window
from dpcheck.verify.result import Objective, StepError, WorstTensor


@dataclasses.dataclass
class Judgement:
    """`decided` False: nobody can tell from outside whether the update is right. `benign`: it is, whatever differs.

    `views` are the steps that were compared, those without any gradient left out.
    """

    objective: Objective
    defects: list[Defect] = dataclasses.field(default_factory=list)
    decided: bool = True
    benign: bool = False
    views: list[View] = dataclasses.field(default_factory=list)


def judge(evidence: Evidence, refuse: Callable[[int], str | None], tolerance: Tolerance, *, strict: bool) -> Judgement:
    """The objective over the steps whose gradient is one; `refuse` says of the others why not."""
    objective = Objective(tolerance=tolerance.relative, coarse=tolerance.coarse)
    result = Judgement(objective)
    if evidence.main is None:
        objective.reason = evidence.failure or "there was no run of one process to compare with"
        return result
    views: list[View] = []
    refusals: list[str] = []
    for step in evidence.steps:
        window = evidence.window(step)
        refusal = refuse(step) or _incomparable(evidence, window)
        view = _view(window, evidence.main, tolerance) if refusal is None else None
        if view is not None and view.failed and window.main is not None:
            refusal = fed_unlike(window.main.window, window.windows, evidence.main)
        if view is None or refusal is not None:
            refusals.append(refusal or "")
        else:
            views.append(view)
            objective.unmatched = sorted({*objective.unmatched, *window.one_sided})
    if not views:
        objective.reason = refusals[0] if refusals else "no step was recorded"
        return result
    broken = next((view for view in views if not np.isfinite(view.actual).all()), None)
    broken = broken or next((view for view in views if not np.isfinite(view.reference).all()), None)
    if broken is not None:
        objective.reason = f"the gradients of step {broken.step} are not finite"
        return result
    live = [view for view in views if not view.difference.zero]
    if not live:
        objective.reason = "every gradient is exactly zero, which is equal to anything and proves nothing"
        objective.explanation = "vacuous"
        return result
    objective.judged = True
    result.views = live
    _decide(live, evidence, tolerance, result, strict=strict)
    return result


# -- one step


def _incomparable(evidence: Evidence, window: WindowEvidence) -> str | None:
    """Why the reference's step is not the same step; None if it is."""
    main = window.main
    if main is None:
        return f"the one process made no step {window.step}"
    own = window.windows[0]
    if (main.window.optimizer_type, main.window.optimizer) != (own.optimizer_type, own.optimizer):
        return f"in step {window.step} the one process stepped another optimizer"
    if not window.comparable:
        names = some(sorted(window.one_sided))
        return f"in step {window.step} no tensor of the ranks has its like in the one process: {names}"
    backwards = [side.backwards for side in window.windows]
    expected = sum(backwards) if evidence.main == "sequence" else own.backwards
    if len(set(backwards)) == 1 and main.window.backwards != expected:
        return (
            f"in step {window.step} the one process made {times(main.window.backwards, 'backward')} "
            f"where the ranks made {own.backwards} each"
        )
    return None


def _view(window: WindowEvidence, main: str, tolerance: Tolerance) -> View:
    space = window.space_over(window.comparable)
    actual: Tensors = whole_gradient(window)
    reference = window.reference(main) or {}
    unclipped = whole_unclipped(window, tolerance)
    clipped = None
    if unclipped is not None and window.main is not None and window.main.window.clipped is not None:
        clipped = compare.difference(space, space.vector(actual), space.vector(reference), tolerance)
        actual, reference = unclipped, window.unclipped_reference(main) or {}
    own = [space.vector(each) for each in window.locals] if window.locals is not None else None
    one, other = space.vector(actual), space.vector(reference)
    return View(window.step, window, space, one, other, compare.difference(space, one, other, tolerance), own, clipped)


# -- the decision


def _decide(
    views: Sequence[View], evidence: Evidence, tolerance: Tolerance, result: Judgement, *, strict: bool
) -> None:
    objective = result.objective
    failed = [view for view in views if view.failed]
    worst = max(failed or views, key=lambda view: view.error)
    words = {view.step: "equal" for view in views}
    _fill(objective, worst)
    if failed:
        found = {view.step: explain(view, evidence, tolerance, strict=strict) for view in failed}
        words |= {step: explanation.word for step, explanation in found.items()}
        chosen = found[worst.step]
        if chosen.benign or not chosen.decided:
            # A step that is off for another reason as well counts more than one that is off by more.
            graver = [view for view in failed if found[view.step].decided and not found[view.step].benign]
            if graver:
                worst = max(graver, key=lambda view: view.error)
                chosen = found[worst.step]
                _fill(objective, worst)
        objective.explanation, objective.sentence = chosen.word, chosen.sentence
        objective.equal = None if not chosen.decided else chosen.benign
        result.defects += chosen.defects
        result.decided, result.benign = chosen.decided, chosen.benign
        if not chosen.decided:
            objective.reason = chosen.sentence
    elif _beyond_rounding(views, evidence):
        objective.explanation = "between-rounding-and-difference"
        objective.sentence = objective.reason = (
            f"off by {percent(worst.error)}: more than rounding usually is, less than a difference would be"
        )
        result.decided = False
    else:
        objective.equal, objective.explanation = True, "equivalent"
        objective.sentence = "the gradients are those of one process, to rounding"
    objective.steps = [_step_error(view, words[view.step]) for view in views]
    micro = _mean_of_means(views, evidence, tolerance)
    if micro is not None and result.decided:
        result.defects.append(micro)
        if objective.equal:
            result.benign = False
            objective.equal, objective.explanation = False, "mean-of-micro-batch-means"
            objective.sentence = micro.message


def _fill(objective: Objective, view: View) -> None:
    """The figures of the step that the report speaks of."""
    difference = view.difference
    if view.clipped is not None and view.clipped.relative > difference.relative:
        difference = view.clipped
    objective.step, objective.relative_error = view.step, difference.relative
    scaled = compare.factor(view.actual, view.reference)
    objective.k, objective.residual = scaled if scaled is not None else (None, None)
    objective.worst = [
        WorstTensor(name=tensor.name, relative_error=tensor.relative, norm=tensor.norm, failed=tensor.failed)
        for tensor in difference.tensors[:8]
    ]
    objective.targets = counting.counts(view.window)
    objective.target_weights = counting.target_weights(view.window, view.actual, view.own)
    objective.terms = [term.told for term in counting.terms(view.window)]
    if view.fitted is not None and view.fitted.unique:
        objective.fitted, objective.fit_error = view.fitted.factors, view.fitted.residual


def _step_error(view: View, explanation: str) -> StepError:
    scaled = compare.factor(view.actual, view.reference)
    return StepError(
        step=view.step,
        optimizer=view.window.windows[0].optimizer,
        relative_error=view.error,
        k=scaled[0] if scaled is not None else None,
        residual=scaled[1] if scaled is not None else None,
        norm=view.difference.norm,
        targets=counting.counts(view.window),
        explanation=explanation,
    )


def _beyond_rounding(views: Sequence[View], evidence: Evidence) -> bool:
    """Whether a small difference is more than ten times what rounding the weights changes in the reference."""
    doubtful = [view for view in views if view.doubtful]
    if not doubtful:
        return False
    changes = []
    for view in views:
        plain = view.space.vector(view.window.reference(evidence.main or "") or {})
        for name in evidence.references:
            perturbed = view.window.reference(name) if name.startswith("perturbed") else None
            if perturbed is not None:
                changes.append(compare.relative_error(view.space.vector(perturbed), plain))
    return not changes or any(view.error > 10 * max(changes) for view in doubtful)


# -- micro-batches


def _mean_of_means(views: Sequence[View], evidence: Evidence, tolerance: Tolerance) -> Defect | None:
    """Whether accumulation takes the mean of micro-batches' means although these hold different numbers of targets."""
    for view in views:
        sides = view.window.windows
        backwards = max(side.backwards for side in sides)
        whole = view.window.reference("window")
        plain = view.window.reference(evidence.main or "")
        if backwards < 2 or whole is None or plain is None:
            continue
        by_rank = [counting.by_micro_batch(side.losses, backwards) for side in sides]
        numbers = [sum(micro) for micro in zip(*by_rank, strict=True)]
        if (all(numbers) and len(set(numbers)) == 1) or _only_the_tail_is_short(sides, evidence):
            continue
        one, other = view.space.vector(plain), view.space.vector(whole)
        error = compare.relative_error(one, other)
        scaled = compare.factor(one, other)
        if error <= tolerance.relative or (scaled is not None and scaled[1] <= tolerance.relative * 10):
            continue  # equal, or apart by a factor between the two runs
        if not all(numbers) and not view.is_weighted_mean(other, tolerance):
            continue  # no counts were seen, and what differs is no weighting
        loss = next(iter(counting.weighing(sides[0].losses)), None)
        said = f"targets by micro-batch in step {view.step}: {', '.join(map(str, numbers))}" if all(numbers) else ""
        return Defect(
            "DP305",
            "the means of micro-batches are averaged although these hold different numbers of targets",
            known(loss.place if loss is not None else None, sides[0].forwarded, sides[0].place),
            help="divide by the count of the whole window",
            evidence=tuple(filter(None, (said, f"off by {percent(error)} from the whole window at once"))),
            alternatives=("DP301",),
        )
    return None


def _only_the_tail_is_short(sides: Sequence[Window], evidence: Evidence) -> bool:
    """Whether the counts differ only because the last batch of a pass holds fewer samples."""
    for side, recording in zip(sides, evidence.recordings, strict=True):
        batches = [recording.fetches[number] for number in side.fetches]
        sizes = [len(batch.samples or batch.indices or ()) for batch in batches]
        if len(sizes) < 2 or len(set(sizes[:-1])) != 1 or not 0 < sizes[-1] < sizes[0]:
            return False
        numbers = [loss.targets for loss in counting.weighing(side.losses)]
        if numbers and (
            len(numbers) != len(sizes) or len({count / size for count, size in zip(numbers, sizes, strict=True)}) > 1
        ):
            return False
    return True
