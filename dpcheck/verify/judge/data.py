"""Did the ranks see different samples?

Samples are compared within the same pass over a loader: by index where the ranks index the same data set, else by
content. Where there is no loader, the rows that entered the models and the script's own draws are compared. A sampler
may repeat a few samples to even the shards; examples that a data set holds twice are no fault of the sharding.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import math
from collections.abc import Hashable, Sequence

from dpcheck.verify.judge.defect import Defect, ranks_named, remark, times
from dpcheck.verify.judge.evidence import Evidence, known
from dpcheck.verify.recording import Draw, Fetch, Loader, Place, Recording, Window
from dpcheck.verify.result import Data, Remark

_SHARD = "give each rank its own part of the samples, and all of them together"
_FEW = 4  # batches or rows that are too few to speak of an order
_TELLING = 4  # numbers of a draw that two ranks do not draw alike by chance
_OF_EVERYTHING = ("RandomSampler", "SequentialSampler")
_PERMUTATIONS = ("randperm", "permutation", "shuffle", "sample")


@dataclasses.dataclass
class Judgement:
    data: Data
    defects: list[Defect] = dataclasses.field(default_factory=list)
    remarks: list[Remark] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class _Pass:
    """One pass over one loader, on every rank: what was taken for training, in order."""

    number: int
    epoch: int
    loaders: list[Loader]
    fetches: list[list[Fetch]]

    @property
    def loader(self) -> Loader:
        return self.loaders[0]

    @property
    def same_data(self) -> bool | None:
        """Whether an index means the same sample on every rank; None where the data sets could not be compared."""
        prints = {loader.fingerprint for loader in self.loaders}
        return None if None in prints else len(prints) == 1

    def samples(self) -> list[list[Hashable]]:
        return [[sample for fetch in own for sample in fetch.samples or ()] for own in self.fetches]

    def indices(self) -> list[list[int | str]] | None:
        if any(fetch.indices is None for own in self.fetches for fetch in own):
            return None
        return [[index for fetch in own for index in fetch.indices or ()] for own in self.fetches]

    @property
    def padding(self) -> int:
        """How many samples may be repeated so that all ranks get as many."""
        ranks = len(self.loaders)
        if "Distributed" in self.loader.sampler:
            return ranks - 1
        taken = [len(fetch.indices or fetch.samples or ()) for own in self.fetches for fetch in own]
        return ranks * max(self.loader.batch_size or 1, max(taken, default=1))


def judge(evidence: Evidence) -> Judgement:
    """Data over all steps and passes that were recorded."""
    recordings = evidence.recordings
    result = Judgement(Data())
    if len(recordings) < 2:
        return result
    passes = _passes(recordings, evidence.steps)
    result.data.samples = [0] * len(recordings)
    if passes:
        result.data.by = "content"
        for each in passes:
            _judge_pass(each, result)
        _judge_orders(passes, result)
        _judge_noise(evidence, result)
        result.data.batches = [loader.batches for loader in passes[0].loaders]
    else:
        _judge_inputs(evidence, result)
    _judge_lengths(passes, result)
    return result


def _passes(recordings: Sequence[Recording], steps: Sequence[int]) -> list[_Pass]:
    """The passes of which every rank trained on something. The k-th loader made on a line is the same on all ranks."""
    numbers = [_numbered(recording.loaders) for recording in recordings]
    by_pass: dict[tuple[tuple[Place, int], int], list[list[Fetch]]] = {}
    for rank, recording in enumerate(recordings):
        names = {number: name for name, number in numbers[rank].items()}
        used = {fetch for window in recording.windows if window.index in steps for fetch in window.fetches}
        for number in sorted(used):
            fetch = recording.fetches[number]
            key = (names[fetch.loader], fetch.epoch)
            by_pass.setdefault(key, [[] for _ in recordings])[rank].append(fetch)
    found = []
    for (name, epoch), fetches in by_pass.items():
        if all(fetches) and all(name in each for each in numbers):
            loaders = [recording.loaders[numbers[rank][name]] for rank, recording in enumerate(recordings)]
            found.append(_Pass(numbers[0][name], epoch, loaders, fetches))
    return found


def _numbered(loaders: Sequence[Loader]) -> dict[tuple[Place, int], int]:
    counts: collections.Counter[Place] = collections.Counter()
    numbered = {}
    for number, loader in enumerate(loaders):
        numbered[(loader.place, counts[loader.place])] = number
        counts[loader.place] += 1
    return numbered


# -- one pass over a loader


def _judge_pass(each: _Pass, result: Judgement) -> None:
    data = result.data
    samples, indices = each.samples(), each.indices()
    counted: Sequence[Sequence[object]] = indices if indices is not None and not any(samples) else samples
    data.samples = [count + len(own) for count, own in zip(data.samples, counted, strict=True)]
    by_index = indices is not None and (each.same_data or (each.same_data is None and not any(samples)))
    keys: Sequence[Sequence[Hashable]] = indices if by_index and indices is not None else samples
    if not all(keys):
        return
    shared = _shared(keys)
    epoch = _whole_epoch(each) if by_index else None
    if epoch is not None:
        data.epoch_overlap, data.epoch_samples = len(_shared(epoch)), len(set(itertools.chain(*epoch)))
    repeated = _is_repetition(each, keys)
    whole = _is_repetition(each, epoch) if epoch is not None else by_index and _all_read_everything(each)
    data.disjoint = data.disjoint is not False and not (repeated or whole)
    if repeated:
        data.overlap += len(shared)
    if (repeated or whole) and not any(defect.place == _place(each) for defect in result.defects):
        result.defects.append(_overlapping(each, keys, shared, epoch))
    elif shared:
        data.tolerated += len(shared)
        result.remarks.append(_tolerated(each, len(shared), by_index=by_index))
    elif by_index and (twins := _shared(samples)):
        text = f"{times(len(twins), 'sample')} stand in the data set more than once and went to several ranks"
        result.remarks.append(remark("repeated-samples", text, _place(each)))


def _shared(keys: Sequence[Sequence[Hashable]]) -> set[Hashable]:
    """What more than one rank has."""
    counts = collections.Counter(key for own in keys for key in set(own))
    return {key for key, count in counts.items() if count > 1}


def _whole_epoch(each: _Pass) -> list[list[int | str]] | None:
    """All indices that each rank gets in the pass; None where the samplers could not be read on."""
    indices = each.indices()
    if indices is None or any(loader.remaining is None for loader in each.loaders):
        return None
    if any(loader.passes - 1 != each.epoch for loader in each.loaders):
        return None  # `remaining` speaks of the last pass
    return [[*own, *(loader.remaining or ())] for own, loader in zip(indices, each.loaders, strict=True)]


def _all_read_everything(each: _Pass) -> bool:
    """Whether torch's own sampler takes every rank through the whole of a data set that is too large to be listed."""
    return all(
        loader.remaining is None
        and loader.sampler in _OF_EVERYTHING
        and loader.length is not None
        and (loader.batches or 0) * (loader.batch_size or 0) >= loader.length
        for loader in each.loaders
    )


def _is_repetition(each: _Pass, keys: Sequence[Sequence[Hashable]]) -> bool:
    """Whether ranks share so many samples that neither padding nor examples that stand in the data twice explain it."""
    shared = _shared(keys)
    if not shared:
        return False
    least = min(len(set(own)) for own in keys)
    if _often_twice(keys):
        return all(list(own) == list(keys[0]) for own in keys)
    if each.loader.iterable:
        return 2 * len(shared) >= least  # streams that draw at random meet by chance
    if len(shared) >= 0.9 * least and "Distributed" not in each.loader.sampler:
        return True
    return len(shared) > each.padding + 2 * _twins(keys)


def _twins(keys: Sequence[Sequence[Hashable]]) -> int:
    """How many samples of a rank are its second of the same content."""
    return max(len(own) - len(set(own)) for own in keys)


def _often_twice(keys: Sequence[Sequence[Hashable]]) -> bool:
    """Whether the data hold so few different samples that ranks must meet: then only their order says something."""
    return _twins(keys) > 0.2 * max(map(len, keys))


def _overlapping(
    each: _Pass, keys: Sequence[Sequence[Hashable]], shared: set[Hashable], epoch: list[list[int | str]] | None
) -> Defect:
    loader, place = each.loader, _place(each)
    total = min(len(set(own)) for own in keys)
    evidence = [f"{len(shared)} of {times(total, 'sample')} in the recorded steps went to several ranks"]
    if epoch is None and not shared:
        evidence = [f"a pass takes every rank through all {times(loader.length or 0, 'sample')}"]
    if epoch is not None:
        both, all_of = len(_shared(epoch)), len(set(itertools.chain(*epoch)))
        evidence.append(f"over the whole pass several ranks get {both} of the {all_of} that are read")
        missed = (loader.length or 0) - all_of
        if missed > each.padding:
            evidence.append(f"{missed} of {times(loader.length or 0, 'sample')} go to no rank")
    what = f"a {loader.sampler} over {loader.dataset}" if loader.sampler else loader.dataset
    if loader.iterable:
        return Defect(
            "DP202",
            f"every rank reads the same samples from the stream {loader.dataset}",
            place,
            help="split the stream by rank, and by worker where the loader has several",
            evidence=tuple(evidence),
            alternatives=("DP201", "DP204"),
        )
    if each.same_data is False:
        return Defect(
            "DP206",
            f"the ranks' data sets ({loader.dataset}) hold the same samples in different places: "
            "they were split, shuffled or listed differently before the sharding",
            place,
            help="split and shuffle alike on all ranks, from one seed and a sorted listing",
            evidence=tuple(evidence),
            alternatives=("DP207", "DP205", "DP204", "DP201"),
        )
    if "Distributed" in loader.sampler:
        alike = _in_one_order(keys)
        if alike:
            who = "every rank gives" if len(alike) == len(keys) else f"{ranks_named(alike)} give"
            code, message = "DP204", f"{who} the sampler of {loader.dataset} one and the same rank: they get one shard"
        else:
            code = "DP205"
            message = f"each rank shuffles by another seed in the sampler of {loader.dataset}: their shards overlap"
        return Defect(
            code,
            message,
            place,
            help="give the sampler the global rank and world size" if alike else "give all ranks the same seed",
            evidence=tuple(evidence),
            alternatives=("DP205", "DP204", "DP201"),
        )
    return Defect(
        "DP201",
        f"no one shards the loader: {what} gives every rank the same samples",
        place,
        help=_SHARD,
        evidence=tuple(evidence),
        alternatives=("DP204", "DP205"),
    )


def _in_one_order(keys: Sequence[Sequence[Hashable]]) -> list[int]:
    """The first ranks that read the same samples in the same order."""
    by_order: dict[tuple[Hashable, ...], list[int]] = collections.defaultdict(list)
    for rank, own in enumerate(keys):
        by_order[tuple(own)].append(rank)
    return next((ranks for ranks in by_order.values() if len(ranks) > 1), [])


def _tolerated(each: _Pass, shared: int, *, by_index: bool) -> Remark:
    if by_index:
        text = f"{times(shared, 'sample')} of a pass go to several ranks, to even the shards"
    else:
        text = f"{times(shared, 'sample')} of equal content went to several ranks"
    return remark("shared-samples", text, _place(each))


def _place(each: _Pass) -> Place:
    return known(each.loader.place, each.fetches[0][0].place)


# -- orders over epochs


def _judge_orders(passes: Sequence[_Pass], result: Judgement) -> None:
    """A shuffling sampler that gives the order of the pass before: nobody told it the epoch."""
    by_loader: dict[int, list[_Pass]] = collections.defaultdict(list)
    for each in passes:
        by_loader[each.number].append(each)
    for own in by_loader.values():
        own.sort(key=lambda each: each.epoch)
        for before, after in itertools.pairwise(own):
            repeated = [
                _same_order(one, other)
                for one, other in zip(before.indices() or (), after.indices() or (), strict=False)
            ]
            if not repeated or None in repeated:
                continue
            result.data.epoch_repeated = result.data.epoch_repeated is True or all(repeated)
            if all(repeated):
                place = _place(after)
                result.defects.append(
                    Defect(
                        "DP203",
                        f"pass {after.epoch + 1} over {after.loader.dataset} has the order of the pass before",
                        known(after.fetches[0][0].place, place),
                        ((place, "the loader"),),
                        "call set_epoch(epoch) on the sampler before each pass",
                    )
                )
                break


def _same_order(one: Sequence[int | str], other: Sequence[int | str]) -> bool | None:
    """Whether a shuffled order came again; None where there are too few indices, or they are in their natural order."""
    length = min(len(one), len(other))
    if length < _FEW or not all(isinstance(index, int) for index in (*one, *other)) or _is_natural(one[:length]):
        return None
    return list(one[:length]) == list(other[:length])


def _is_natural(order: Sequence[int | str]) -> bool:
    """Ascending, but for the few indices that padding repeats at the end."""
    falls = [place for place in range(1, len(order)) if int(order[place]) < int(order[place - 1])]
    return not falls or (len(falls) == 1 and 2 * falls[0] >= len(order))


# -- noise


def _judge_noise(evidence: Evidence, result: Judgement) -> None:
    """Different samples, but the ranks draw the same numbers for them: what is drawn before step 1 may be a setup."""
    steps = evidence.steps[1:]
    if not steps or not result.data.disjoint:
        return
    drawn = [[_drawn_for_samples(evidence, rank, step) for rank in range(evidence.world_size)] for step in steps]
    for place in drawn[0][0]:
        if all(own[0].get(place) == other.get(place) for own in drawn for other in own):
            times_drawn = sum(place in own[0] for own in drawn)
            result.defects.append(
                Defect(
                    "DP209",
                    "all ranks draw the same numbers for their samples: the examples at one place of the ranks' "
                    "batches share them",
                    place,
                    help="add the rank to the seed once the models are built",
                    evidence=(f"the same on all ranks in {times(times_drawn, 'step')}",),
                    remark=not evidence.settings.strict,
                )
            )


def _drawn_for_samples(evidence: Evidence, rank: int, step: int) -> dict[Place, list[str]]:
    """The digests of a step's draws that have a row for each sample of a batch, by their line."""
    recording, window = evidence.recordings[rank], evidence.window(step).windows[rank]
    fetches = [recording.fetches[number] for number in window.fetches]
    sizes = {len(fetch.indices or fetch.samples or ()) for fetch in fetches}
    drawn: dict[Place, list[str]] = {}
    for draw in window.draws:
        telling = math.prod(draw.shape) >= _TELLING and draw.function not in _PERMUTATIONS
        if telling and draw.shape[0] in sizes:
            drawn.setdefault(draw.place, []).append(draw.digest)
    return drawn


# -- without a loader


def _judge_inputs(evidence: Evidence, result: Judgement) -> None:
    """The rows that entered the models, window by window, and the draws that chose them."""
    steps = [evidence.window(step).windows for step in evidence.steps]
    if not steps:
        return
    rows: list[list[Hashable]] = [[] for _ in steps[0]]
    for windows in steps:
        for own, window in zip(rows, windows, strict=True):
            own += window.inputs
    if not all(rows):
        return
    data = result.data
    data.by, data.samples = "inputs", [len(own) for own in rows]
    shared = _shared(rows)
    least = min(len(set(own)) for own in rows)
    # What is drawn before the first step may be the data set itself; what is drawn in each step chooses from it.
    every_step = [[draw for windows in steps[1:] or steps for draw in windows[rank].draws] for rank in range(len(rows))]
    draws = [[draw for windows in steps for draw in windows[rank].draws] for rank in range(len(rows))]
    permuted = _unequal_permutation(draws)
    at_random = any(draw.function not in _PERMUTATIONS for own in every_step for draw in own)
    place = known(*(window.forwarded for window in steps[0]), steps[0][0].place)
    said = (f"{len(shared)} of {times(least, 'row')} that entered the models in the recorded steps are the same",)
    alike = all(own == rows[0] for own in rows)
    repeated = _repeated_draw(steps) if len(shared) > 1 + 2 * _twins(rows) else None
    if _often_twice(rows):
        found = alike
    elif at_random and permuted is None:
        found = repeated is not None or len(shared) >= max(2, 0.9 * least)
    else:
        found = len(shared) > max(1 + 2 * _twins(rows), 0.05 * least)
    data.disjoint = not found
    if found:
        data.overlap = len(shared)
        result.defects.append(_same_inputs(place, said, _equal_draws(every_step) or repeated, permuted, alike=alike))
    elif shared:
        data.tolerated = len(shared)
        text = f"{times(len(shared), 'row')} of equal content entered the models of several ranks"
        result.remarks.append(remark("shared-samples", text, place))


def _equal_draws(draws: Sequence[Sequence[Draw]]) -> Draw | None:
    """The first draw, when all ranks drew the same numbers throughout."""
    if not all(draws):
        return None
    alike = all(len({(draw.function, draw.digest) for draw in together}) == 1 for together in zip(*draws, strict=False))
    return draws[0][0] if alike else None


def _repeated_draw(steps: Sequence[Sequence[Window]]) -> Draw | None:
    """A draw of one rank, after the first step, that another rank made as well, sooner or later.

    Ranks with one random state part where one of them draws more, for an evaluation of its own.
    """
    by_rank = [[windows[rank].draws for windows in steps] for rank in range(len(steps[0]))]
    for rank, own in enumerate(by_rank):
        others = {
            _drawn(draw) for other, theirs in enumerate(by_rank) if other != rank for made in theirs for draw in made
        }
        for draw in itertools.chain.from_iterable(own[1:]):
            if math.prod(draw.shape) >= _TELLING and draw.function not in _PERMUTATIONS and _drawn(draw) in others:
                return draw
    return None


def _drawn(draw: Draw) -> tuple[str, tuple[int, ...], str, Place]:
    return draw.function, tuple(draw.shape), draw.digest, draw.place


def _unequal_permutation(draws: Sequence[Sequence[Draw]]) -> Draw | None:
    """A permutation that each rank drew for itself."""
    orders = [[draw for draw in own if draw.function in _PERMUTATIONS] for own in draws]
    for position in range(min(map(len, orders))):
        if len({own[position].digest for own in orders}) > 1:
            return orders[0][position]
    return None


def _same_inputs(
    place: Place, evidence: tuple[str, ...], drawn: Draw | None, permuted: Draw | None, *, alike: bool
) -> Defect:
    if drawn is not None and drawn.function not in _PERMUTATIONS:
        return Defect(
            "DP208",
            "every rank draws the same batches: their random states are the same",
            known(drawn.place, place),
            help="seed the draw with the rank added, once the models are built",
            evidence=evidence,
            alternatives=("DP201", "DP202"),
        )
    if permuted is not None:
        return Defect(
            "DP205",
            "each rank takes its part of a permutation of its own: the parts overlap and leave holes",
            known(permuted.place, place),
            help="draw the permutation from one seed on all ranks",
            evidence=evidence,
            alternatives=("DP206", "DP207", "DP204"),
        )
    if alike:
        return Defect(
            "DP202",
            "every rank feeds its model the same samples",
            place,
            help=_SHARD,
            evidence=evidence,
            alternatives=("DP201", "DP208", "DP204"),
        )
    return Defect(
        "DP207",
        "the ranks' parts of the data overlap: they were cut from lists in different orders",
        place,
        help="sort what is sliced by rank, or shuffle it from one seed on all ranks",
        evidence=evidence,
        alternatives=("DP206", "DP205", "DP204", "DP201"),
    )


# -- lengths


def _judge_lengths(passes: Sequence[_Pass], result: Judgement) -> None:
    """Unequal numbers of batches are a hang to come, unless the script evens them out: a remark, until a rank waits."""
    seen = set()
    for each in passes:
        batches = [loader.batches for loader in each.loaders]
        if None in batches or len(set(batches)) == 1 or each.number in seen:
            continue
        seen.add(each.number)
        said = ", ".join(f"rank {rank} {count}" for rank, count in enumerate(batches))
        result.remarks.append(
            remark("uneven-batches", f"the ranks have different numbers of batches: {said}", _place(each))
        )
