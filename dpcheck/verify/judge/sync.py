"""Did the ranks end up with the same gradient, and was it the mean of their own, bit for bit?

Where the ranks disagree, the pattern tells why: each its own gradient means that nothing was reduced; the first
micro-batches reduced and the last ones not, that the reduction came too early; some tensors only, that the wrapper does
not know these.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np

from dpcheck.verify.judge import compare
from dpcheck.verify.judge.compare import Tensors, Tolerance
from dpcheck.verify.judge.defect import Defect, some, times
from dpcheck.verify.judge.evidence import Evidence, WindowEvidence, known, model_of
from dpcheck.verify.recording import Place, Recording, Window, Wrap
from dpcheck.verify.result import Sync


@dataclasses.dataclass
class StepSync:
    """One step. `identical`: the ranks' gradients are the same bits. `differing` are those apart by more than rounding.

    `exact` and the rest are as in `result.Sync`; None where the ranks' own gradients were not seen.
    """

    step: int
    identical: bool
    compared: list[str]
    differing: list[str]
    exact: bool | None = None
    bitwise: bool | None = None
    error: float | None = None
    factor: float | None = None
    early_clip: Defect | None = None


@dataclasses.dataclass
class Judgement:
    sync: Sync
    steps: dict[int, StepSync]
    defects: list[Defect] = dataclasses.field(default_factory=list)

    def identical(self, step: int) -> bool | None:
        found = self.steps.get(step)
        return found.identical if found is not None else None

    def agreed(self, step: int) -> bool:
        """Whether the ranks had one gradient in the step and in all before: it can be held against the reference's."""
        return step in self.steps and not any(each.differing for each in self.steps.values() if each.step <= step)


def judge(evidence: Evidence, tolerance: Tolerance) -> Judgement:
    """Sync over all steps; the defects are those of the first step that shows any."""
    result = Judgement(Sync(), {})
    if evidence.world_size < 2:
        return result
    for step in evidence.steps:
        window = evidence.window(step)
        judged = result.steps[step] = _step(window, tolerance, evidence.settings.dtype)
        if judged.differing and not result.defects:
            result.defects += _explain(window, judged.differing, evidence.recordings, tolerance)
        elif judged.early_clip is not None and not result.defects:
            result.defects.append(judged.early_clip)
    _sum_up(result)
    return result


def _sum_up(result: Judgement) -> None:
    sync, steps = result.sync, list(result.steps.values())
    sync.compared = max((len(step.compared) for step in steps), default=0)
    if sync.compared:
        worst = next((step for step in steps if step.differing), None)
        sync.agree = worst is None
        if worst is not None:
            sync.step, sync.differing, sync.tensors = worst.step, len(worst.differing), worst.differing[:8]
    seen = [step for step in steps if step.exact is not None]
    if seen:
        sync.exact = all(step.exact for step in seen)
        sync.bitwise = all(step.bitwise for step in seen)
        worst = max(seen, key=lambda step: step.error or 0.0)
        sync.error = worst.error
        sync.factor = next((step.factor for step in seen if step.factor is not None), None)


# -- one step


def _step(window: WindowEvidence, tolerance: Tolerance, dtype: str) -> StepSync:
    compared = [name for name in window.names if not window.sharded(name) and _holders(window, name) > 1]
    suspects = [name for name in compared if len(_digests(window, name)) > 1 or _lacking(window, name)]
    differing = _apart(window, suspects, tolerance) if suspects else []
    judged = StepSync(window.step, not suspects, compared, differing)
    judged.early_clip = _clipped_by_shard(window)
    if not differing:
        _hold_against_mean(judged, window, dtype)
    return judged


def _holders(window: WindowEvidence, name: str) -> int:
    return sum(window.holds(rank, name) for rank in range(len(window.ranks)))


def _digests(window: WindowEvidence, name: str) -> set[str]:
    return {side.gradients[name].digest for side in window.ranks if name in side.gradients}


def _lacking(window: WindowEvidence, name: str) -> list[int]:
    return [rank for rank in range(len(window.ranks)) if window.lacks(rank, name)]


def _apart(window: WindowEvidence, names: Sequence[str], tolerance: Tolerance) -> list[str]:
    """Those of the tensors that differ by more than rounding."""
    observed = [window.observed(rank) for rank in range(len(window.ranks))]
    found = []
    for name in names:
        held = [each[name] for each in observed if name in each]
        norm = max(float(np.linalg.norm(each)) for each in held)
        if any(not float(np.linalg.norm(each - held[0])) <= tolerance.doubt * norm for each in held[1:]):
            found.append(name)
    return found


def whole_gradient(window: WindowEvidence) -> Tensors:
    """The gradient that the ranks agree on: each tensor from the first rank that steps it."""
    found: Tensors = {}
    for rank in range(len(window.ranks)):
        for name, tensor in window.observed(rank).items():
            found.setdefault(name, tensor)
    return found


def whole_unclipped(window: WindowEvidence, tolerance: Tolerance) -> Tensors | None:
    """The gradient before it was clipped, where the ranks agreed on it by then; None where nothing was clipped."""
    sides = [window.unclipped(rank) for rank in range(len(window.ranks))]
    found: Tensors = {}
    for side in sides:
        if side is None:
            return None
        for name, tensor in side.items():
            known_ = found.setdefault(name, tensor)
            if known_ is not tensor and not compare.relative_error(tensor, known_) <= tolerance.doubt:
                return None
    return found


def _hold_against_mean(judged: StepSync, window: WindowEvidence, dtype: str) -> None:
    """Shard replay: whether the gradient is the mean of the ranks' own."""
    own = window.locals
    if own is None:
        return
    tolerance = compare.tolerance_for(dtype)
    count = len(own)
    names = [name for name in window.names if any(name in each for each in own)]
    unclipped = whole_unclipped(window, tolerance)
    actual = unclipped if unclipped is not None else whole_gradient(window)
    actual = {name: actual[name] for name in names if name in actual}
    mean = compare.combined(own, [1 / count] * count)
    mean = {name: mean[name] for name in names if name in mean}
    if not (compare.finite(actual) and compare.finite(mean)):
        return
    space = window.space_over(names)
    one, other = space.vector(actual), space.vector(mean)
    judged.error = compare.relative_error(one, other)
    judged.bitwise = compare.same_bits(actual, mean)
    backwards = max(side.window.backwards for side in window.ranks)
    rounding = 8 * float(np.finfo(dtype).eps) * max(backwards, 1)
    judged.exact = judged.bitwise or judged.error <= rounding
    if judged.exact:
        return
    scaled = compare.factor(one, other)
    if scaled is not None and scaled[1] <= rounding * 4:
        judged.exact, judged.factor = True, scaled[0]
        return
    judged.early_clip = judged.early_clip or _clipped_before_reduction(window, own, tolerance)


def averages_weights(evidence: Evidence) -> bool:
    """Whether the script averages the weights of ranks that step apart: it says so, or one sees them equal again."""
    if any(note.kind == "model-averaging" for recording in evidence.recordings for note in recording.notes):
        return True
    for step, following in itertools.pairwise(evidence.steps):
        apart = evidence.window(step).windows
        if following != step + 1 or len(set(map(_held, apart))) > 1 or len(set(map(_used, apart))) == 1:
            continue
        later = evidence.window(following).windows
        if len(set(map(_held, later))) == 1 and _held(later[0]) != _held(apart[0]):
            return all(_averaged_before(recording, following) for recording in evidence.recordings)
    return False


def _held(window: Window) -> tuple[str, ...]:
    return tuple(share.digest for share in window.weights)


def _used(window: Window) -> tuple[str, ...]:
    return tuple(share.digest for share in window.gradients)


def _averaged_before(recording: Recording, step: int) -> bool:
    """Whether the script, or a library, averaged something between two steps: a broadcast would drop all but one."""
    calls = [call for call in recording.collectives if call.window == step and call.by != "wrapper"]
    return any(call.name.startswith(("all_reduce", "all_gather")) for call in calls)


# -- clipping


def _clipped_by_shard(window: WindowEvidence) -> Defect | None:
    """Each rank scaled its own shard by the norm of that shard: the factors differ."""
    names = [name for name in window.names if window.sharded(name)]
    factors: dict[int, float] = {}
    for rank, side in enumerate(window.ranks):
        pairs = [(side.tensor(f"gradient/{name}"), side.tensor(f"unclipped/{name}")) for name in names]
        both = [(after, before) for after, before in pairs if after is not None and before is not None]
        before = sum(float(each @ each) for _, each in both)
        if before > 0:
            factors[rank] = (sum(float(each @ each) for each, _ in both) / before) ** 0.5
    if len(factors) < 2 or max(factors.values()) - min(factors.values()) <= 1e-6 * max(factors.values()):
        return None
    return _clip_defect(window, factors, "each rank clips its shard of the gradients by the norm of that shard alone")


def _clipped_before_reduction(window: WindowEvidence, own: list[Tensors], tolerance: Tolerance) -> Defect | None:
    """The gradient is a sum of the ranks' own with unequal factors, and these were clipped while they were local."""
    if any(side.window.clipped is None for side in window.ranks):
        return None
    names = [name for name in window.names if any(name in each for each in own)]
    space = window.space_over(names)
    for rank, local in enumerate(own):
        unclipped = window.unclipped(rank) or {}
        if not compare.relative_error(space.vector(unclipped), space.vector(local)) <= tolerance.relative:
            return None
    found = compare.fit([space.vector(each) for each in own], space.vector(whole_gradient(window)))
    if found is None or not found.unique or not found.residual <= tolerance.relative:
        return None
    factors = {rank: factor * len(own) for rank, factor in enumerate(found.factors)}
    return _clip_defect(window, factors, "gradients are clipped on each rank by its own norm before they are averaged")


def _clip_defect(window: WindowEvidence, factors: dict[int, float], message: str) -> Defect:
    said = ", ".join(f"rank {rank} {factor:.3g}" for rank, factor in factors.items())
    return Defect(
        "DP403",
        message,
        known(*(side.window.clipped for side in window.ranks), window.windows[0].place),
        help="clip after the gradients are reduced, by the norm over all ranks",
        evidence=(f"factors of the clipping: {said}",),
        exact=True,
    )


# -- why ranks disagree


def _explain(
    window: WindowEvidence, differing: list[str], recordings: Sequence[Recording], tolerance: Tolerance
) -> list[Defect]:
    """One defect for each model whose gradients the ranks disagree on."""
    wraps = {wrap.model: wrap for wrap in (recordings[0].wraps if recordings else [])}
    known_to = {name for wrap in wraps.values() for name in wrap.after}
    local = set(_own_only(window, differing, tolerance))
    by_model: dict[int | None, list[str]] = {}
    for name in differing:
        by_model.setdefault(model_of(name), []).append(name)
    defects = []
    for model, names in by_model.items():
        wrap = wraps.get(model) if model is not None else None
        of_model = [name for name in window.names if model_of(name) == model]
        if wrap is None and not any(name in known_to for name in names):
            defects.append(_unreduced(window, names, of_model, bool(wraps)))
        elif len(names) == len(of_model) and set(names) <= local:
            defects.append(_never_reduced(window, wrap, recordings))
        elif len(names) == len(of_model):
            defects.append(_reduced_too_early(window, names, wrap, recordings, tolerance))
        else:
            defects.append(_unknown_to_wrapper(window, names, of_model, wrap))
    return defects


def _own_only(window: WindowEvidence, names: Sequence[str], tolerance: Tolerance) -> list[str]:
    """The tensors of which every rank uses its own gradient, untouched."""
    own = window.locals
    if own is None:
        return []
    found = []
    for name in names:
        pairs = []
        for rank, local in enumerate(own):
            observed = (window.unclipped(rank) or window.observed(rank)).get(name)
            if observed is not None:
                pairs.append((observed, local.get(name, np.zeros_like(observed))))
        if all(compare.relative_error(observed, local) <= tolerance.doubt for observed, local in pairs):
            found.append(name)
    return found


def _unreduced(window: WindowEvidence, names: list[str], of_model: list[str], others: bool) -> Defect:
    if len(names) == len(window.names):
        why = "the model is not wrapped" if others else "nothing averages them"
        message = f"every rank steps with its own gradients: {why}"
    else:
        why = "they belong to no wrapped model" if others else "the reduction leaves them out"
        message = f"the gradients of {some(names)} stay local: {why}"
    return Defect(
        "DP404",
        message,
        window.windows[0].place,
        help="wrap the module, or reduce its gradients with the others",
        evidence=(f"{len(names)} of {times(len(of_model), 'tensor')} differ between the ranks in step {window.step}",),
        alternatives=("DP104", "DP401"),
    )


def _told_not_to(recordings: Sequence[Recording]) -> Place:
    """Where a wrapper was told not to reduce: `no_sync`, or the flag."""
    return known(*(note.place for recording in recordings for note in recording.notes if note.kind == "no-sync"))


def _never_reduced(window: WindowEvidence, wrap: Wrap | None, recordings: Sequence[Recording]) -> Defect:
    sides = [side.window for side in window.ranks]
    unsynced = _told_not_to(recordings)
    bypassed = sum(side.bypassed for side in sides)
    related = ((wrap.place, "wrapped here"),) if wrap is not None else ()
    evidence = (f"in step {window.step} every rank used exactly its own gradients",)
    if unsynced.path and not bypassed:
        return Defect(
            "DP402",
            "no backward before the step is synchronized: every rank steps with its own gradients",
            unsynced,
            related,
            "let the last forward and backward before each step run outside no_sync",
            evidence,
            ("DP401",),
        )
    return Defect(
        "DP401",
        "the training forward does not pass through the wrapper: every rank steps with its own gradients",
        known(*(side.forwarded for side in sides), sides[0].place),
        related,
        "call the wrapped model, not its module",
        evidence,
        () if bypassed else ("DP402",),
    )


def _reduced_too_early(
    window: WindowEvidence,
    names: list[str],
    wrap: Wrap | None,
    recordings: Sequence[Recording],
    tolerance: Tolerance,
) -> Defect:
    """Some backwards of the window were averaged and later ones only added: the ranks' remainders tell which."""
    sides = [side.window for side in window.ranks]
    last = _last_averaged(window, names, tolerance)
    backwards = sides[0].backwards
    if last is not None:
        message = f"the gradients are averaged after backward {last + 1} of {backwards} and the later ones stay local"
    else:
        message = "the ranks step with different gradients although their wrapper reduced some"
    return Defect(
        "DP402",
        message,
        known(_told_not_to(recordings), *(side.forwarded for side in sides), sides[0].place),
        ((wrap.place, "wrapped here"),) if wrap is not None else (),
        "synchronize in the last backward before each step",
        (f"{len(names)} of {times(len(window.names), 'tensor')} differ between the ranks in step {window.step}",),
        () if last is not None else ("DP401", "DP404", "DP104"),
    )


def _last_averaged(window: WindowEvidence, names: Sequence[str], tolerance: Tolerance) -> int | None:
    """The number of the backward after which a rank's gradient was the mean; what follows was added to it."""
    parts = window.parts
    if parts is None or len({len(each) for each in parts}) != 1 or len(parts[0]) < 2:
        return None
    space = window.space_over(names)
    observed = [space.vector(window.unclipped(rank) or window.observed(rank)) for rank in range(len(parts))]
    for last in reversed(range(len(parts[0]) - 1)):
        rest = [observed[rank] - sum(space.vector(part) for part in own[last + 1 :]) for rank, own in enumerate(parts)]
        mean = sum(space.vector(part) for own in parts for part in own[: last + 1]) / len(parts)
        if all(float(np.linalg.norm(each - mean)) <= tolerance.relative * float(np.linalg.norm(mean)) for each in rest):
            return last
    return None


def _unknown_to_wrapper(window: WindowEvidence, names: list[str], of_model: list[str], wrap: Wrap | None) -> Defect:
    sides = [side.window for side in window.ranks]
    evidence = (f"{len(names)} of {times(len(of_model), 'tensor')} of the model differ between the ranks",)
    if any(side.bypassed for side in sides) and wrap is not None and all(name in wrap.after for name in names):
        return Defect(
            "DP401",
            f"a part of the model is called past its wrapper: the gradients of {some(names)} stay local",
            known(*(side.forwarded for side in sides), sides[0].place),
            ((wrap.place, "wrapped here"),),
            "let every training forward pass through the wrapped model",
            evidence,
            ("DP104",),
        )
    return Defect(
        "DP104",
        f"the wrapper does not know {some(names)}: their gradients stay local on each rank",
        wrap.place if wrap is not None else sides[0].place,
        (),
        "change the model before it is wrapped",
        evidence,
        ("DP404", "DP401"),
    )
