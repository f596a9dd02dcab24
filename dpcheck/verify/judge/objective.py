"""Was the averaged gradient that of one process on the whole batch? Step by step; the worst step is explained."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from dpcheck.verify.judge import compare, counting
from dpcheck.verify.judge.compare import Array, Tensors, Tolerance
from dpcheck.verify.judge.defect import Defect, percent, ranks_named, some, times
from dpcheck.verify.judge.evidence import Evidence, WindowEvidence, known
from dpcheck.verify.judge.explain import GLOBAL_COUNT, View, explain, loss_place
from dpcheck.verify.judge.fairness import fed_unlike
from dpcheck.verify.judge.sync import whole_gradient, whole_unclipped
from dpcheck.verify.recording import Window
from dpcheck.verify.result import Objective, StepError, WorstTensor

_MARGIN = 10  # times what rounding changes is rounding still
_LARGE = 1e3  # times the tolerance is more than rounding explains


@dataclasses.dataclass
class Judgement:
    """`decided` False: nobody can tell from outside whether the update is right. `benign`: it is, whatever differs.

    `views` are the steps that were compared, those without any gradient left out; `refusals` say why others were not.
    """

    objective: Objective
    defects: list[Defect] = dataclasses.field(default_factory=list)
    decided: bool = True
    benign: bool = False
    views: list[View] = dataclasses.field(default_factory=list)
    refusals: dict[int, str] = dataclasses.field(default_factory=dict)


def judge(evidence: Evidence, refuse: Callable[[int], str | None], tolerance: Tolerance, *, strict: bool) -> Judgement:
    """The objective over the steps whose gradient is one; `refuse` says of the others why not."""
    objective = Objective(tolerance=tolerance.relative, coarse=tolerance.coarse)
    result = Judgement(objective)
    if evidence.main is None:
        objective.reason = evidence.failure or "there was no run of one process to compare with"
        return result
    views: list[View] = []
    refusals: dict[int, str] = {}
    for step in evidence.steps:
        window = evidence.window(step)
        refusal = refuse(step) or _incomparable(evidence, window)
        view = _view(window, evidence.main, tolerance) if refusal is None else None
        if view is not None and view.failed and window.main is not None:
            refusal = fed_unlike(window.main.window, window.windows, evidence.main)
        if view is not None and refusal is None:
            if _is_finite(view.reference) and not _is_finite(view.actual):
                _lost_to_nan(view, result)
                return result
            refusal = _not_finite(view)
        if view is None or refusal is not None:
            refusals[step] = refusal or ""
        else:
            views.append(view)
            objective.unmatched = sorted({*objective.unmatched, *window.one_sided})
    if not views:
        objective.reason = next(iter(refusals.values()), "no step was recorded")
        return result
    result.refusals = refusals
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
        if not window.one_sided:
            return f"in step {window.step} no tensor that the optimizer steps has a gradient"
        names = some(sorted(window.one_sided))
        return f"in step {window.step} no tensor of the ranks has its like in the one process: {names}"
    backwards = [side.backwards for side in window.windows]
    expected = sum(backwards) if evidence.main == "sequence" else own.backwards
    if len(set(backwards)) == 1 and main.window.backwards != expected:
        return (
            f"in step {window.step} the one process made {times(main.window.backwards, 'backward')} "
            f"where the ranks made {expected} {'together' if evidence.main == 'sequence' else 'each'}"
        )
    return None


def _is_finite(vector: Array) -> bool:
    return bool(np.isfinite(vector).all())


def _not_finite(view: View) -> str | None:
    if _is_finite(view.reference):
        return None
    if _is_finite(view.actual):
        return f"in step {view.step} the gradients of the one process are not finite, while those of the ranks are"
    return f"the gradients of step {view.step} are not finite"


def _lost_to_nan(view: View, result: Judgement) -> None:
    """The ranks computed no numbers where one process does: a mean over no target at all is the usual reason."""
    objective = result.objective
    objective.judged, objective.equal = True, False
    objective.step, objective.explanation = view.step, "not-finite"
    objective.targets = counting.counts(view.window)
    objective.sentence = (
        f"in step {view.step} the gradients of the ranks are not finite, while those of one process are"
    )
    empty = [rank for rank, count in enumerate(objective.targets) if not count]
    if empty:
        own = ", ".join(f"rank {rank} {count}" for rank, count in enumerate(objective.targets))
        message = (
            f"{ranks_named(empty)} has no target in step {view.step}, and a mean over none is not a number, which the "
            "averaging hands to all ranks"
        )
        objective.sentence = message
        result.defects.append(
            Defect(
                "DP301",
                message,
                loss_place(view.window),
                help=GLOBAL_COUNT,
                evidence=(f"targets: {own}",),
                alternatives=("DP302", "DP308"),
            )
        )


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
    rounding = _Rounding(views, evidence, tolerance)
    failed = [view for view in views if view.failed and not rounding.explains(view)]
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
    elif not all(rounding.explains(view) for view in views if view.doubtful):
        objective.explanation = "between-rounding-and-difference"
        objective.sentence = objective.reason = (
            f"off by {percent(worst.error)}: more than rounding usually is, less than a difference would be"
        )
        result.decided = False
    else:
        objective.equal, objective.explanation = True, "equivalent"
        enlarged = ", which this model enlarges" if any(view.failed for view in views) else ""
        objective.sentence = f"the gradients are those of one process, to rounding{enlarged}"
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


class _Rounding:
    """What rounding the weights otherwise changes in the reference, at all and by tensor, at most over all steps."""

    def __init__(self, views: Sequence[View], evidence: Evidence, tolerance: Tolerance) -> None:
        self._tolerance = tolerance
        self._whole: float | None = None
        self._tensors: dict[str, float] = {}
        names = [name for name in evidence.references if name.startswith("perturbed")]
        for view in views:
            plain = view.space.vector(view.window.reference(evidence.main or "") or {})
            for name in names:
                perturbed = view.window.reference(name)
                if perturbed is None:
                    continue
                change = compare.difference(view.space, view.space.vector(perturbed), plain, tolerance)
                self._whole = max(self._whole or 0.0, change.relative)
                for tensor in change.tensors:
                    self._tensors[tensor.name] = max(self._tensors.get(tensor.name, 0.0), tensor.relative)

    def explains(self, view: View) -> bool:
        """Whether the difference is no more than ten times that. Without a reference to tell, it does not."""
        doubt = self._tolerance.doubt
        if self._whole is None or not view.error <= max(_MARGIN * self._whole, doubt):
            return False
        return self._tolerance.coarse or all(
            tensor.relative <= max(_MARGIN * self._tensors.get(tensor.name, 0.0), doubt)
            for tensor in view.difference.tensors
        )


def wants_perturbation(objective: Objective) -> bool:
    """Whether it would tell more to know what rounding alone changes in the gradients of the one process."""
    if objective.explanation == "between-rounding-and-difference":
        return True
    most = _LARGE * objective.tolerance
    small = all(step.relative_error is not None and step.relative_error < most for step in objective.steps)
    return objective.judged and objective.equal is False and small


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
