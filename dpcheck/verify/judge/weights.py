"""Did all ranks hold the same model: before the wrap, after it, and before every step?

Tensors are compared by digest, bit for bit. A wrapper that broadcasts hides ranks that built different models: that is
a remark. One that only shards leaves a patchwork of them. BatchNorm's running statistics are judged apart.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from dpcheck.verify.judge.defect import Defect, ranks_named, remark, some
from dpcheck.verify.judge.evidence import Evidence, known, model_of
from dpcheck.verify.recording import Place, Recording, Seed, Share, Window, Wrap
from dpcheck.verify.result import Equality, Remark, Weights

_NORM_STATISTICS = ("running_mean", "running_var", "num_batches_tracked")
_MAKE_EQUAL = (
    "let one rank's weights reach all others before the first step, or seed every rank alike before the model is built"
)
_CONSTRUCTION = ("DP101", "DP102", "DP103")


@dataclasses.dataclass
class Judgement:
    """`same_until` is the last step whose gradients all ranks computed from the same model."""

    weights: Weights
    defects: list[Defect] = dataclasses.field(default_factory=list)
    remarks: list[Remark] = dataclasses.field(default_factory=list)
    same_until: float = math.inf


@dataclasses.dataclass(frozen=True)
class _Apart:
    """The first step before which tensors differed between ranks, and which."""

    step: int
    names: list[str]


def judge(evidence: Evidence, agreed: Callable[[int], bool | None]) -> Judgement:
    """`agreed(step)` says whether the ranks had the same gradient in that step."""
    recordings = evidence.recordings
    weights = Weights()
    result = Judgement(weights)
    if len(recordings) < 2:
        return result
    wraps = _paired_wraps(recordings)
    _judge_wraps(wraps, result)
    apart = _before_steps(evidence, weights)
    if not wraps and evidence.steps:
        weights.initial = "different" if apart is not None and apart.step == evidence.steps[0] else "equal"
    if apart is not None and not _follows(apart, evidence, weights, agreed):
        result.defects += _of_steps(apart, evidence, recordings, wraps)
    elif apart is None and weights.after_wrap == "different" and not _overwritten(evidence, wraps):
        result.defects.append(_patchwork(recordings, wraps))
    stale = _stale(evidence, wraps)
    if stale is not None:
        result.defects.append(stale)
    result.defects += _judge_buffers(evidence, wraps, result)
    if apart is not None:
        result.same_until = min(result.same_until, apart.step - 1)
    return result


# -- at the wrap


def _paired_wraps(recordings: Sequence[Recording]) -> list[tuple[Wrap, ...]]:
    """The wraps that all ranks made, in order."""
    return list(zip(*(recording.wraps for recording in recordings), strict=False))


def _judge_wraps(wraps: Sequence[tuple[Wrap, ...]], result: Judgement) -> None:
    weights = result.weights
    for pair in wraps:
        before = _differing([wrap.before for wrap in pair])
        weights.initial = _worse(weights.initial, bool(before))
        left = bool(_left_apart(pair))
        weights.after_wrap = _worse(weights.after_wrap, left)
        if before and not left:
            weights.hidden = True
            place = pair[0].place
            result.remarks.append(
                remark(
                    "hidden-difference",
                    f"the ranks built different models ({some(before)}); the wrapper gave all of them rank 0's",
                    place,
                )
            )


def _keeps_whole(pair: Sequence[Wrap]) -> bool:
    return all(wrap.kind == "ddp" for wrap in pair)


def _left_apart(pair: Sequence[Wrap]) -> list[str]:
    """The tensors that the wrap left different: under DDP whole ones, else those of which each rank kept its part."""
    if _keeps_whole(pair):
        return _differing([wrap.after for wrap in pair])
    return [
        name
        for name in _differing([wrap.before for wrap in pair])
        if all(wrap.after[name] == wrap.before.get(name) for wrap in pair if name in wrap.after)
    ]


def _overwritten(evidence: Evidence, wraps: Sequence[tuple[Wrap, ...]]) -> bool:
    """Whether every tensor left apart was written anew between the wrap and the first step: from what, nobody saw."""
    if not evidence.steps:
        return False
    for rank, window in enumerate(evidence.window(evidence.steps[0]).windows):
        held = {share.name: share.digest for share in window.weights if share.stop > share.start}
        for pair in wraps:
            digests = pair[rank].held
            if any(digests.get(name, held[name]) == held[name] for name in _left_apart(pair) if name in held):
                return False
    return True


def _patchwork(recordings: Sequence[Recording], wraps: Sequence[tuple[Wrap, ...]]) -> Defect:
    pair = next(pair for pair in wraps if _left_apart(pair))
    names = _left_apart(pair)
    kind = {"fsdp": "FSDP", "fully_shard": "fully_shard", "ddp": "DDP"}[pair[0].kind]
    return _unequal(
        recordings,
        pair[0].model,
        pair[0].place,
        f"the ranks built different models and {kind} broadcasts nothing: the weights are a patchwork of them",
        names,
    )


# -- before the steps


def _before_steps(evidence: Evidence, weights: Weights) -> _Apart | None:
    apart: _Apart | None = None
    for step in evidence.steps:
        windows = evidence.window(step).windows
        names = _differing_shares([window.weights for window in windows])
        weights.compared = max(weights.compared, len({share.name for window in windows for share in window.weights}))
        weights.after_steps = _worse(weights.after_steps, bool(names))
        if names and apart is None:
            apart = _Apart(step, names)
            weights.first_difference = step
            weights.tensors = names[:8]
            weights.differing = len(names)
    return apart


def _follows(apart: _Apart, evidence: Evidence, weights: Weights, agreed: Callable[[int], bool | None]) -> bool:
    """Whether the difference only follows from gradients that differed in an earlier step."""
    earlier = [step for step in evidence.steps if step < apart.step]
    return bool(earlier) and any(agreed(step) is False for step in earlier)


def _of_steps(
    apart: _Apart, evidence: Evidence, recordings: Sequence[Recording], wraps: Sequence[tuple[Wrap, ...]]
) -> Iterator[Defect]:
    if apart.step != evidence.steps[0]:
        yield _parted(apart, evidence)
        return
    windows = evidence.window(apart.step).windows
    place = windows[0].place
    wrapped = {name: pair for pair in wraps for name in pair[0].after}
    models = {pair[0].model: pair for pair in wraps}
    inside = [name for name in apart.names if name in wrapped or model_of(name) in models]
    outside = [name for name in apart.names if name not in inside]
    if outside:
        model = model_of(outside[0])
        yield _unequal(
            recordings,
            model,
            place,
            f"every rank starts from weights of its own: {some(outside)} differ before the first step "
            "and nothing made them equal",
            outside,
        )
    if not inside:
        return
    pairs = [wrapped.get(name) or models[model_of(name) or 0] for name in inside]
    if any(_differing([wrap.after for wrap in pair]) and _keeps_whole(pair) for pair in pairs):
        pair = next(pair for pair in pairs if _differing([wrap.after for wrap in pair]))
        yield _unequal(
            recordings,
            pair[0].model,
            pair[0].place,
            f"{some(inside)} differ between the ranks after the wrap, which did not broadcast them",
            inside,
        )
    elif any(not _keeps_whole(pair) and _left_apart(pair) for pair in pairs):
        yield _patchwork(recordings, wraps)
    else:
        yield _changed_after_wrap(inside, pairs, windows)


def _parted(apart: _Apart, evidence: Evidence) -> Defect:
    """Weights that came apart in a step whose gradients agreed: by the ranks' learning rates, if these differ."""
    windows = evidence.window(apart.step).windows
    earlier = [(step, evidence.window(step).windows) for step in evidence.steps if step < apart.step]
    unlike = next(((step, own) for step, own in earlier if len({tuple(window.rates) for window in own}) > 1), None)
    if unlike is None:
        ranks = ", ".join(f"rank {rank}" for rank in range(len(windows)))
        return Defect(
            "DP103",
            f"{ranks} had the same gradients and came to different weights: {some(apart.names)} "
            f"differ before step {apart.step}",
            windows[0].place,
            help="load optimizer state and edit weights or learning rates on all ranks alike",
        )
    step, own = unlike
    rates = ", ".join(f"rank {rank} {_rates(window)}" for rank, window in enumerate(own))
    evaluated = all(recording.evaluations for recording in evidence.recordings)
    if step == evidence.steps[0] or not evaluated:
        code, other, mend = "DP103", "DP601", "set learning rates on all ranks alike"
    else:
        code, other, mend = "DP601", "DP103", "reduce the metric that decides the learning rate over the ranks"
    return Defect(
        code,
        f"from step {step} on each rank steps with a learning rate of its own, and the weights come apart ({rates})",
        own[0].place,
        help=mend,
        evidence=(f"equal gradients, and {some(apart.names)} differ before step {apart.step}",),
        alternatives=(other,),
    )


def _rates(window: Window) -> str:
    return ", ".join("none" if rate is None else f"{rate:.6g}" for rate in window.rates)


def _stale(evidence: Evidence, wraps: Sequence[tuple[Wrap, ...]]) -> Defect | None:
    """An optimizer whose parameters no model owns and no backward reaches, where sharding has put others in the models.

    A parameter that no module owns goes by its number in the optimizer, see `hooks.steps`.
    """
    sharding = next((pair for pair in wraps if not _keeps_whole(pair)), None)
    if sharding is None:
        return None
    by_optimizer: dict[int, list[Window]] = {}
    for step in evidence.steps:
        for window in evidence.window(step).windows:
            by_optimizer.setdefault(window.optimizer, []).append(window)
    for windows in by_optimizer.values():
        if all(window.backwards and _holds_nothing_trained(window) for window in windows):
            count = len(windows[0].weights)
            return Defect(
                "DP105",
                f"none of the {count} tensors that the optimizer steps is a parameter of the model, and none has a "
                "gradient: sharding replaced the parameters after it was built, and no step moves the model",
                windows[0].place,
                ((sharding[0].place, "the parameters are replaced here"),) if sharding[0].place.path else (),
                "build the optimizer after the sharding",
            )
    return None


def _holds_nothing_trained(window: Window) -> bool:
    return not window.gradients and all(share.name.startswith("optimizer") for share in window.weights)


def _changed_after_wrap(names: list[str], pairs: Sequence[tuple[Wrap, ...]], windows: Sequence[Window]) -> Defect:
    """Weights that the wrapper had made equal: changed on some ranks only, or on each in its own way."""
    wrap = pairs[0][0]
    changed: set[int] = set()
    kept: set[int] = set()
    added: list[str] = []
    for name, pair in zip(names, pairs, strict=True):
        for rank, window in enumerate(windows):
            after = pair[rank].after.get(name)
            held = next((share.digest for share in window.weights if share.name == name), None)
            if after is None:
                added.append(name)
            elif held is not None:
                (kept if held == after else changed).add(rank)
    related = ((wrap.place, "made equal here"),)
    if changed and kept - changed:
        return Defect(
            "DP103",
            f"after the wrap the weights were changed on {ranks_named(sorted(changed))} only: {some(names)}",
            wrap.place,
            related,
            "set the weights before the wrap, or on every rank alike",
            alternatives=("DP104",),
        )
    if added or (changed and _comparable(pairs, windows)):
        return Defect(
            "DP104",
            f"parameters were {'added' if added else 'set anew'} after the wrap, on each rank to values of its own: "
            f"{some(added or names)}",
            wrap.place,
            related,
            "change the model before it is wrapped",
            alternatives=("DP103",),
        )
    return Defect(
        "DP103",
        f"after the wrap the weights were changed differently on the ranks: {some(names)}",
        wrap.place,
        related,
        "set the weights before the wrap, or on every rank alike",
        alternatives=("DP104",),
    )


def _comparable(pairs: Sequence[tuple[Wrap, ...]], windows: Sequence[Window]) -> bool:
    """Whether any tensor still has the digest from after the wrap: where none has, the two may be of other types."""
    after = {
        (rank, name): digest for pair in pairs for rank, wrap in enumerate(pair) for name, digest in wrap.after.items()
    }
    return any(
        after.get((rank, share.name)) == share.digest for rank, window in enumerate(windows) for share in window.weights
    )


def _unequal(
    recordings: Sequence[Recording], model: int | None, place: Place, message: str, names: list[str]
) -> Defect:
    """Weights that were never equal: by the ranks' seeds, where these differ, else by none at all."""
    seeds = [_seed_before(recording, model or 0) for recording in recordings]
    values = {seed.value for seed in seeds if seed is not None}
    if len(values) > 1 and all(seed is not None for seed in seeds):
        first = next(seed for seed in seeds if seed is not None)
        said = ", ".join(f"rank {rank} {seed.value}" for rank, seed in enumerate(seeds) if seed is not None)
        return Defect(
            "DP102",
            f"{message}; the ranks were seeded differently",
            first.place,
            ((place, "never made equal"),) if place.path else (),
            _MAKE_EQUAL,
            (f"seeds: {said}", f"different: {some(names)}"),
            _CONSTRUCTION,
        )
    return Defect("DP101", message, place, (), _MAKE_EQUAL, (f"different: {some(names)}",), _CONSTRUCTION)


def _seed_before(recording: Recording, model: int) -> Seed | None:
    """The seed of torch's generator that was in force when the model was built."""
    seeds = [seed for seed in recording.seeds if seed.function.startswith("torch") and seed.models <= model]
    return seeds[-1] if seeds else None


# -- buffers


def _judge_buffers(evidence: Evidence, wraps: Sequence[tuple[Wrap, ...]], result: Judgement) -> Iterator[Defect]:
    weights = result.weights
    at_wrap: dict[str, Wrap] = {}
    for pair in wraps:
        for name in _differing([wrap.buffers_after for wrap in pair]):
            if not _is_norm_statistic(name):
                at_wrap.setdefault(name, pair[0])
    differing: list[str] = []
    first: Window | None = None
    for step in evidence.steps:
        windows = evidence.window(step).windows
        names = _differing([window.buffers for window in windows])
        plain = [name for name in names if not _is_norm_statistic(name)]
        weights.norm_statistics = _worse(
            weights.norm_statistics, len(plain) < len(names), seen=any(map(_is_norm_statistic, windows[0].buffers))
        )
        weights.buffers = _worse(
            weights.buffers, bool(plain), seen=not all(map(_is_norm_statistic, windows[0].buffers))
        )
        if plain and first is None:
            first, differing = windows[0], plain
    weights.differing_buffers = differing or list(at_wrap)
    if first is None:
        return
    # They are seen at the end of a step: what differs then, the next one begins with.
    result.same_until = first.index if not at_wrap else -1
    unset = [name for name in differing if name in at_wrap]
    updated = [name for name in differing if name not in at_wrap]
    if unset:
        wrap = at_wrap[unset[0]]
        yield Defect(
            "DP103",
            f"buffers differ between the ranks from the start, and the wrapper did not broadcast them: {some(unset)}",
            wrap.place,
            help="load them on every rank, or let the wrapper broadcast them",
            alternatives=("DP101", "DP102", "DP106"),
        )
    if updated:
        yield Defect(
            "DP106",
            f"each rank updates {some(updated)} from its own batch, and nothing reduces the update",
            known(first.forwarded, first.place),
            help="reduce what the update is made of over the ranks",
            alternatives=() if wraps else ("DP103",),
        )


def _is_norm_statistic(name: str) -> bool:
    return name.rpartition(".")[2] in _NORM_STATISTICS


# -- comparing


def _differing(sides: Sequence[Mapping[str, str]]) -> list[str]:
    """The names whose digests are not the same on all sides that have them."""
    names = dict.fromkeys(itertools.chain.from_iterable(sides))
    return [name for name in names if len({side[name] for side in sides if name in side}) > 1]


def _differing_shares(sides: Sequence[Sequence[Share]]) -> list[str]:
    """The tensors of which two ranks hold the same range, and not the same values."""
    seen: dict[tuple[str, int, int], set[str]] = {}
    for shares in sides:
        for share in shares:
            seen.setdefault((share.name, share.start, share.stop), set()).add(share.digest)
    return list(dict.fromkeys(name for (name, *_), digests in seen.items() if len(digests) > 1))


def _worse(so_far: Equality, different: bool, *, seen: bool = True) -> Equality:
    if not seen and not different:
        return so_far
    return "different" if different or so_far == "different" else "equal"
