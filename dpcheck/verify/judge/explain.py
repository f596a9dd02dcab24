"""Why a gradient is not that of one process: the first explanation that matches to rounding.

The observed gradient a stands beside the reference r and the ranks' own gradients g_i. Each explanation is a statement
about them that is true or false to within the tolerance; what matches none is said to be unexplained.
"""

from __future__ import annotations

import dataclasses
import functools
import math

import numpy as np

from dpcheck.verify.judge import compare, counting
from dpcheck.verify.judge.compare import Array, Difference, Fit, Space, Tolerance
from dpcheck.verify.judge.counting import TermView
from dpcheck.verify.judge.defect import Defect, percent, shown, some, times
from dpcheck.verify.judge.evidence import Evidence, WindowEvidence, known
from dpcheck.verify.recording import Collective, Loss, Place

GLOBAL_COUNT = "divide by the count over all ranks, times the world size: sum * world_size / all_reduce(count)"
_SMALL = 4096  # bytes: what a count takes on its way over the ranks, and a gradient does not
_NEAR = 1e-4  # how near a factor must be to a power of the world size, to be called one


@dataclasses.dataclass
class Explanation:
    """A stable word, a sentence for people, and the defects that follow. `decided` False: from outside nobody can tell.

    `benign` explains the difference as none of the update's: it is a remark.
    """

    word: str
    sentence: str
    defects: list[Defect] = dataclasses.field(default_factory=list)
    decided: bool = True
    benign: bool = False


@dataclasses.dataclass
class View:
    """A step's gradients as vectors over the tensors that both sides have.

    `clipped` compares them as the optimizer used them, where `actual` and `reference` are from before a clip.
    """

    step: int
    window: WindowEvidence
    space: Space
    actual: Array
    reference: Array
    difference: Difference
    own: list[Array] | None
    clipped: Difference | None = None

    @property
    def failed(self) -> bool:
        return self.difference.failed or (self.clipped is not None and self.clipped.failed)

    @property
    def doubtful(self) -> bool:
        return self.difference.doubtful or (self.clipped is not None and self.clipped.doubtful)

    @property
    def error(self) -> float:
        return max(self.difference.relative, self.clipped.relative if self.clipped is not None else 0.0)

    @functools.cached_property
    def fitted(self) -> Fit | None:
        """The factors of the ranks' own gradients that come nearest to the reference."""
        return compare.fit(self.own, self.reference) if self.own is not None else None

    def parts(self) -> list[list[Array]] | None:
        """The ranks' own gradients by micro-batch, where all ranks made as many and all were kept."""
        parts = self.window.parts
        if parts is None or len({len(own) for own in parts}) != 1:
            return None
        return [[self.space.vector(part) for part in own] for own in parts]

    def is_weighted_mean(self, target: Array, tolerance: Tolerance) -> bool:
        """Whether the target is a mean of the ranks' gradients with positive weights, micro-batch by micro-batch."""
        if self.own is None:
            return False
        columns = [part for own in self.parts() or [[own] for own in self.own] for part in own]
        found = compare.fit(columns, target)
        if found is None or not found.unique or not found.residual <= tolerance.relative * 10:
            return False
        total = sum(found.factors) * len(self.own) / len(columns)
        return min(found.factors) > 0 and abs(total - 1) < _NEAR


def loss_place(window: WindowEvidence) -> Place:
    """The line of the first loss that counts, and else of the forward or the step."""
    sides = window.windows
    losses = [loss.place for side in sides for loss in counting.weighing(side.losses)]
    return known(*losses, *(side.forwarded for side in sides), sides[0].place)


def explain(view: View, evidence: Evidence, tolerance: Tolerance, *, strict: bool) -> Explanation:
    """BatchNorm comes first: what it explains is no defect of the update, and the rest may hide behind it."""
    normed = _with_norm_statistics(view, tolerance)
    if normed is not None and not normed.failed:
        return _batch_norm(view, normed, strict=strict)
    return _Case(normed or view, evidence, tolerance).explanation()


# -- BatchNorm


def _with_norm_statistics(view: View, tolerance: Tolerance) -> View | None:
    """The view beside a reference whose BatchNorm statistics were taken over each rank's rows, too."""
    if not any(side.batch_norm is not None for side in view.window.windows):
        return None
    name = "frozen-statistics"
    frozen = view.window.reference(name) if view.clipped is None else view.window.unclipped_reference(name)
    if frozen is None:
        return None
    reference = view.space.vector(frozen)
    difference = compare.difference(view.space, view.actual, reference, tolerance)
    return View(view.step, view.window, view.space, view.actual, reference, difference, view.own)


def _batch_norm(view: View, normed: View, *, strict: bool) -> Explanation:
    message = (
        f"BatchNorm takes its statistics from each rank's own samples: the gradient is off by {percent(view.error)}, "
        "and by nothing else"
    )
    defect = Defect(
        "DP107",
        message,
        known(*(side.batch_norm for side in view.window.windows)),
        help="torch.nn.SyncBatchNorm.convert_sync_batchnorm(model) takes them over all ranks",
        evidence=(f"with statistics by rank in the one process as well, the error is {normed.error:.1e}",),
        remark=not strict,
    )
    return Explanation("batch-norm", message, [defect], benign=not strict)


# -- all else


class _Case:
    """One step that failed, with what all explanations ask about it."""

    def __init__(self, view: View, evidence: Evidence, tolerance: Tolerance) -> None:
        self.view = view
        self.window = view.window
        self.evidence = evidence
        self.ranks = len(view.window.ranks)
        self.near = tolerance.relative * 10
        self.tolerance = tolerance
        self.place = loss_place(view.window)
        self.terms = counting.terms(view.window)
        self.wrong_terms = [term for term in self.terms if not term.right]
        self.mean = np.asarray(np.sum(view.own, axis=0) / len(view.own)) if view.own is not None else None
        self.averaged = self.mean is not None and compare.relative_error(view.actual, self.mean) <= tolerance.relative

    def explanation(self) -> Explanation:
        view = self.view
        if view.clipped is not None and not view.difference.failed:
            return self._clipped_otherwise(view.clipped)
        scaled = compare.factor(view.actual, view.reference)
        k, residual = scaled if scaled is not None else (0.0, 1.0)
        detached = self._detached_collective(k)
        if residual <= self.near:
            power = self._power(k)
            if power is not None and detached is not None:
                return detached
            if power == -1:
                return self._once_too_often()
            if power == 1:
                return self._summed()
            return self._constant(k, power)
        weighted = self._count_weighted()
        counted = weighted is not None and compare.relative_error(weighted, view.reference) <= self.near
        if not counted and counting.targets_lost(self.window):
            return self._other_targets()
        if self.averaged and (counted or view.is_weighted_mean(view.reference, self.tolerance)):
            return self._per_rank_mean(counted=counted)
        if detached is not None:
            return detached
        if self.wrong_terms:
            return self._by_terms()
        if not self.averaged:
            return self._unexplained()
        if counting.targets_changed(self.window):
            return self._other_targets()
        return self._other_padding() if counting.padding_changed(self.window) else self._batch_coupled()

    # -- constant factors

    def _power(self, k: float) -> int | None:
        """The p for which k is the world size to the p, if there is one."""
        if k <= 0 or self.ranks < 2:
            return None
        power = round(math.log(k) / math.log(self.ranks))
        return power if power and abs(k / self.ranks**power - 1) < _NEAR else None

    def _once_too_often(self) -> Explanation:
        """k = 1/W: averaged twice, or divided by a count of all ranks without the factor W, or by some constant."""
        share = f"1/{self.ranks}"
        if self.mean is not None and not self.averaged:
            against_mean = compare.factor(self.view.actual, self.mean)
            if against_mean is not None and abs(against_mean[0] * self.ranks - 1) < _NEAR:
                return self._factor(
                    "averaged-twice",
                    f"the gradients are divided by the world size twice: they are {share} of what is meant",
                    known(*(each.place for each in self._sums_by_hand()), self.place),
                    "DP303",
                )
        gathered = self._gathered()
        if gathered is not None and self._normalizes_alike():
            return self._detached(gathered, 1 / self.ranks)
        divisor = self._divisor()
        counted = self._counted_globally()
        if divisor == "global" or (divisor is None and counted is not None):
            related = ((counted.place, "the count over all ranks"),) if counted is not None else ()
            return self._factor(
                "missing-world-size-factor",
                "a sum over a count of all ranks is averaged over the ranks again: "
                f"the gradient is {share} of what is meant",
                self.place,
                "DP303",
                related,
            )
        message = f"the gradient is {share} of that of one process on the whole batch"
        if self._normalizes_alike():
            return self._factor("missing-world-size-factor", message, self.place, "DP303")
        return Explanation(
            "undecidable-factor",
            f"the gradient is exactly {share} of that of one process: right where the loss is divided by a constant "
            "such as the batch size of a rank, wrong where a sum is meant; from outside nobody can tell",
            [Defect("DP303", message, self.place, remark=True, sure=False)],
            decided=False,
        )

    def _divisor(self) -> str | None:
        """What the losses are divided by, told from the targets' weights: a count over all ranks, or a constant."""
        total = sum(counting.counts(self.window))
        weights = [each for side in self.window.ranks for each in self.window.target_weights(side) if each is not None]
        if not total or not weights:
            return None
        if self.mean is not None:
            # Gradients may be multiplied by something after the backward, and then the weights do not tell.
            scaled = compare.factor(self.view.actual, self.mean)
            if scaled is None or abs(scaled[0] - 1) > self.near:
                return None
        products = {
            round(float(weight) * total, 6) for each in weights for weight in np.unique(counting.unmasked(each))
        }
        return "global" if products == {1.0} else "constant"

    def _normalizes_alike(self) -> bool:
        """Whether the ranks' losses and those of one process are divided by their own counts in the same way.

        Then no constant divisor explains a factor between them.
        """
        main = self.window.main
        if main is None or not main.window.losses:
            return False
        expected = counting.shares(self.window, main)
        return bool(expected) and all(
            len(own) == len(expected) and np.allclose(own, expected, rtol=1e-5)
            for own in (counting.shares(self.window, side) for side in self.window.ranks)
        )

    def _gathered(self) -> Collective | None:
        """What the script takes from the other ranks' memories in every step, and is no count."""
        steps_of: dict[Place, set[int]] = {}
        for each in self._collectives():
            if each.name.startswith(("all_gather", "all_to_all")) and each.bytes > 0 and _is_floating(each.dtype):
                steps_of.setdefault(each.place, set()).add(each.window)
                if steps_of[each.place] >= set(self.evidence.steps):
                    return each
        return None

    def _counted_globally(self) -> Collective | None:
        """A small sum over the ranks that the script asks for in every step, the first included: a count on its way.

        What is reduced for a log after the step falls into the windows from the second on.
        """
        steps_of: dict[Place, set[int]] = {}
        for each in self._collectives():
            summing = each.operation in ("SUM", "AVG") or each.name.startswith("all_gather")
            if each.bytes <= _SMALL and summing and not each.carries_gradient:
                steps_of.setdefault(each.place, set()).add(each.window)
                if steps_of[each.place] >= set(self.evidence.steps):
                    return each
        return None

    def _collectives(self) -> list[Collective]:
        """Those of the script and of libraries, on the first rank."""
        recordings = self.evidence.recordings
        return [each for each in recordings[0].collectives if each.by != "wrapper"] if recordings else []

    def _sums_by_hand(self) -> list[Collective]:
        """The sums of this step that are too large to be counts: of gradients."""
        own = [each for each in self._collectives() if each.window == self.view.step]
        sums = [each for each in own if each.operation in ("SUM", "AVG") and not each.carries_gradient]
        return [each for each in sums if each.bytes > _SMALL] or sums

    def _summed(self) -> Explanation:
        """k = W: gradients summed where they should be averaged, or a mean that was multiplied by the world size."""
        if self.averaged:
            message = f"a mean is multiplied by the world size: the gradient is {self.ranks} times what is meant"
            return self._factor("extra-world-size-factor", message, self.place, "DP304")
        message = f"the ranks' gradients are added up and not divided: they are {self.ranks} times what is meant"
        place = known(*(each.place for each in self._sums_by_hand()), self.place)
        return self._factor("summed", message, place, "DP304")

    def _constant(self, k: float, power: int | None) -> Explanation:
        if power is not None:
            message = (
                f"the gradient is {k:.4g} times what is meant, the world size {self.ranks} to the power of {power}"
            )
            return self._factor("power-of-world-size", message, self.place, "DP304" if power > 0 else "DP303")
        message = f"the gradient is {k:.6g} times that of one process, which the number of ranks does not explain"
        return Explanation("constant-factor", message)

    def _factor(
        self, word: str, message: str, place: Place, code: str, related: tuple[tuple[Place, str], ...] = ()
    ) -> Explanation:
        helps = {
            "DP303": "multiply the loss by the world size, or divide the count by it",
            "DP304": "leave the factor out, or divide the sum by the world size",
        }
        return Explanation(
            word, message, [Defect(code, message, place, related, helps[code], (), ("DP308",), exact=True)]
        )

    # -- means

    def _count_weighted(self) -> Array | None:
        """Σ (n_i / Σ n) g_i, micro-batch by micro-batch: the gradient if every target weighed the same."""
        if self.view.own is None:
            return None
        parts = self.view.parts()
        if parts is not None:
            numbers = [counting.by_micro_batch(side.losses, len(parts[0])) for side in self.window.windows]
        else:
            parts = [[own] for own in self.view.own]
            numbers = [[count] for count in counting.counts(self.window) or [0] * self.ranks]
        totals = [sum(micro) for micro in zip(*numbers, strict=True)]
        if not all(totals):
            return None
        weighted = np.zeros(self.view.space.size)
        for own, count in zip(parts, numbers, strict=True):
            for part, targets, total in zip(own, count, totals, strict=True):
                weighted += targets / total * part
        return weighted

    def _per_rank_mean(self, *, counted: bool) -> Explanation:
        numbers = counting.counts(self.window)
        first = next(iter(counting.weighing(self.window.windows[0].losses)), None)
        loss = self.wrong_terms[0].loss if self.wrong_terms else first
        said = []
        if numbers:
            listed = ", ".join(f"rank {rank} {count}" for rank, count in enumerate(numbers))
            said.append(f"targets: {listed}{'' if counted else ' (as torch counts them)'}")
        fitted = self.view.fitted
        if fitted is not None and fitted.unique and fitted.residual <= self.near:
            factors = ", ".join(f"{factor:.4g}" for factor in fitted.factors)
            said.append(f"one process weighs the ranks' gradients by {factors}, the ranks weighed them alike")
        sentence = counting.weight_sentence(counting.target_weights(self.window), numbers)
        message = (
            "every rank takes the mean over its own targets, and the means are averaged although the counts differ"
        )
        return Explanation(
            "per-rank-mean",
            f"{message}: {sentence}" if sentence else message,
            [self._mean_defect(loss, tuple(said) + ((sentence,) if sentence else ()))],
        )

    def _mean_defect(self, loss: Loss | None, said: tuple[str, ...]) -> Defect:
        place = known(loss.place if loss is not None else None, self.place)
        narrow = self._narrow_count()
        if narrow is not None:
            return Defect(
                "DP308",
                f"the count is reduced over ranks {narrow.group}, the gradients over {self._gradient_group()}",
                narrow.place,
                ((place, "the loss"),) if place.path else (),
                "reduce the count over the process group that reduces the gradients",
                said,
                ("DP301", "DP302"),
                exact=True,
            )
        if loss is not None and loss.reduction == "sum":
            return Defect(
                "DP302",
                "a sum is divided by this rank's own count of targets, and ranks hold different numbers of them",
                place,
                (),
                GLOBAL_COUNT,
                said,
                ("DP301", "DP308"),
                exact=True,
            )
        return Defect(
            "DP301",
            "each rank averages over its own targets, and these means are averaged although the counts differ",
            place,
            (),
            GLOBAL_COUNT,
            said,
            ("DP302", "DP308", "DP305"),
            exact=loss is not None,
        )

    def _gradient_group(self) -> list[int]:
        recordings = self.evidence.recordings
        wraps = recordings[0].wraps if recordings else []
        return wraps[0].group if wraps and wraps[0].group else list(range(self.ranks))

    def _narrow_count(self) -> Collective | None:
        """A small sum of the script's over fewer ranks than average the gradients."""
        whole = set(self._gradient_group())
        for each in self._collectives():
            small = each.bytes <= _SMALL and each.operation in ("SUM", "AVG")
            if small and each.window == self.view.step and each.group and set(each.group) < whole:
                return each
        return None

    def _by_terms(self) -> Explanation:
        """The loss has several terms, and the targets' weights tell which of them are off."""
        defects: list[Defect] = []
        for term in self.wrong_terms:
            defect = self._of_term(term)
            if not any((defect.code, defect.place) == (other.code, other.place) for other in defects):
                defects.append(defect)
        by_count = all(counting.divided_by_own_count(term) for term in self.wrong_terms)
        if by_count and len(self.wrong_terms) == len(self.terms):
            sentence = (
                "every rank takes the mean over its own targets, and the means are averaged although the counts differ"
            )
            return Explanation("per-rank-mean", sentence, defects)
        sentence = f"{times(len(defects), 'term')} of the loss with other weights than in one process: "
        return Explanation("terms-off", sentence + defects[0].evidence[0], defects)

    def _of_term(self, term: TermView) -> Defect:
        listed = ", ".join(f"{ratio:.4g}" for ratio in term.ratios)
        where = f"{term.loss.function} at {shown(term.loss.place)}"
        said = f"{where}: its targets weigh, rank by rank, {listed} of what they should"
        if term.uniform and all(abs(ratio * self.ranks - 1) < _NEAR for ratio in term.ratios):
            short = f"1/{self.ranks} of what it should: a sum over all ranks is averaged again"
            message = f"this term of the loss weighs {short}"
            help_ = "multiply it by the world size"
            return Defect("DP303", message, term.loss.place, (), help_, (said,), ("DP308",), exact=True)
        if term.uniform and all(abs(ratio / self.ranks - 1) < _NEAR for ratio in term.ratios):
            message = f"this term of the loss weighs {self.ranks} times what it should"
            return Defect("DP304", message, term.loss.place, (), "leave the factor out", (said,), exact=True)
        return self._mean_defect(term.loss, (said,))

    # -- the rest

    def _detached_collective(self, k: float) -> Explanation | None:
        """A plain collective in this step that a tensor with gradient went through."""
        collectives = [each for recording in self.evidence.recordings for each in recording.collectives]
        found = next((each for each in collectives if each.carries_gradient and each.window == self.view.step), None)
        return self._detached(found, k) if found is not None else None

    def _detached(self, found: Collective, k: float) -> Explanation:
        message = f"{found.name} carries no gradient: what the loss takes from other ranks has no part in the update"
        defect = Defect(
            "DP306",
            message,
            found.place,
            help="use torch.distributed.nn, or put this rank's part back and multiply the loss by the world size",
            evidence=(f"factor between the two gradients: {k:.4g}",),
            alternatives=("DP303", "DP307"),
            exact=True,
        )
        return Explanation("detached-collective", message, [defect])

    def _clipped_otherwise(self, clipped: Difference) -> Explanation:
        message = "the gradients are right before they are clipped, and clipped otherwise than one process would"
        defect = Defect(
            "DP403",
            message,
            known(*(side.clipped for side in self.window.windows)),
            help="clip by the norm of the whole gradient, after it is reduced",
            evidence=(f"off by {percent(clipped.relative)} after the clip",),
        )
        return Explanation("clipped-otherwise", message, [defect])

    def _other_targets(self) -> Explanation:
        return Explanation(
            "other-targets",
            "the one process counts other targets than the ranks together, as if the script treated its batch by rank "
            "or by size: the two gradients are not of the same targets",
            decided=False,
        )

    def _other_padding(self) -> Explanation:
        return Explanation(
            "other-padding",
            "the batch of all ranks is padded further than each rank's own, and the model's result depends on the "
            "padding: the two gradients are not of the same function",
            decided=False,
        )

    def _batch_coupled(self) -> Explanation:
        message = (
            "the loss couples the samples of a batch and sees this rank's alone: "
            "no weighting of the ranks' gradients gives that of one process"
        )
        fitted = self.view.fitted
        said: tuple[str, ...] = ()
        if fitted is not None:
            said = (f"no weighted sum of the ranks' gradients comes nearer than {percent(fitted.residual)}",)
        defect = Defect(
            "DP307",
            message,
            self.place,
            help="gather the features of all ranks with autograd before the loss",
            evidence=said,
            alternatives=("DP301", "DP302", "DP306", "DP308"),
        )
        return Explanation("local-batch-loss", message, [defect])

    def _unexplained(self) -> Explanation:
        worst = some([tensor.name for tensor in self.view.difference.tensors[:3]])
        off = f"off by {percent(self.view.error)}, most in {worst}"
        if self.view.own is None:
            return Explanation("unexplained", f"{off}; the ranks' own gradients were not seen, to explain it by")
        found = compare.fit(self.view.own, self.view.actual)
        if found is not None and found.unique and found.residual <= self.near:
            factors = ", ".join(f"rank {rank} {factor:.4g}" for rank, factor in enumerate(found.factors))
            return Explanation("unequal-parts", f"the ranks' gradients enter the update in unequal parts: {factors}")
        return Explanation("unexplained", f"{off}; none of the known explanations fits")


def _is_floating(dtype: str | None) -> bool:
    return dtype is not None and dtype.startswith(("float", "bfloat"))
