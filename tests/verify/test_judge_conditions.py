"""Weights, data and synchronization: what is wrong is named, and what only looks wrong is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpcheck.findings.finding import Finding, Span
from dpcheck.verify.judge.defect import RULES
from dpcheck.verify.judge.merge import merge
from dpcheck.verify.judge.verdict import judge
from dpcheck.verify.recording import Draw, Note, Place, Seed
from dpcheck.verify.result import Report
from tests.verify.recordings import (
    FORWARD,
    LOADER,
    LOOP,
    SCRIPT,
    SHAPES,
    STEP,
    WRAP,
    PerRank,
    Step,
    Tensors,
    World,
    fetches,
    loader,
    mean,
    plus,
    reduction,
    script_collective,
    wrap,
)


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def found(report: Report) -> list[tuple[str, int]]:
    return [(finding.code, finding.line) for finding in report.findings]


def tensors(seed: int) -> Tensors:
    return World._vector(np.random.default_rng(seed))


def run(tmp_path: Path, change: Any = None, *, counts: Any = ((6,), (6,)), **recorded: Any) -> Report:
    world = World(tmp_path, counts=counts)
    return judge(world.train(world.mean_of_own, change=change, **recorded).refer(world.one_process).evidence())


# -- weights


def own_weights(step: Step, rank: int, number: int) -> None:
    """Each rank began with weights of its own, and the same gradients keep them apart."""
    step.weights = tensors(100 + rank)


def test_weights_that_nothing_made_equal(tmp_path: Path) -> None:
    report = run(tmp_path, own_weights)
    assert (report.verdict, found(report)) == ("different", [("DP101", STEP.line)])
    weights = report.weights
    assert (weights.initial, weights.after_steps, weights.first_difference) == ("different", "different", 0)
    assert (weights.differing, weights.compared, weights.tensors) == (3, 3, list(SHAPES))
    assert (report.objective.judged, report.objective.explanation) == (False, "not-judged")


def test_weights_from_seeds_of_the_ranks(tmp_path: Path) -> None:
    seeds = PerRank([Seed("torch.manual_seed", 7 + rank, Place(SCRIPT, 12), 0)] for rank in range(2))
    report = run(tmp_path, own_weights, seeds=seeds)
    assert found(report) == [("DP102", 12)]
    alike = [Seed("torch.manual_seed", 7, Place(SCRIPT, 12), 0)]
    assert found(run(tmp_path / "alike", own_weights, seeds=alike)) == [("DP101", STEP.line)]
    later = PerRank([Seed("torch.manual_seed", 7 + rank, Place(SCRIPT, 12), 1)] for rank in range(2))
    assert found(run(tmp_path / "later", own_weights, seeds=later)) == [("DP101", STEP.line)]


def test_ddp_hides_unequal_weights_which_is_a_note(tmp_path: Path) -> None:
    held = World(tmp_path).weights[0]
    wraps = PerRank([wrap(tensors(rank), held)] for rank in range(2))
    report = run(tmp_path, wraps=wraps)
    assert (report.verdict, found(report)) == ("equivalent", [])
    assert (report.weights.initial, report.weights.after_wrap, report.weights.hidden) == ("different", "equal", True)
    assert [note.line for note in report.notes if note.kind == "hidden-difference"] == [WRAP.line]


@pytest.mark.parametrize("synchronized", [False, True])
def test_a_patchwork_of_models(tmp_path: Path, synchronized: bool) -> None:
    """FSDP shards what each rank built; with sync_module_states it shards rank 0's."""
    models = [tensors(rank) for rank in range(2)]
    after = [models[0], tensors(50) if synchronized else models[1]]  # a part that changed has a digest of its own
    wraps = PerRank([wrap(models[rank], after[rank], kind="fsdp")] for rank in range(2))

    def sharded(step: Step, rank: int, number: int) -> None:
        step.local, step.range = None, (rank / 2, (rank + 1) / 2)

    report = run(tmp_path, sharded, wraps=wraps)
    assert found(report) == ([] if synchronized else [("DP101", WRAP.line)])
    assert report.weights.after_wrap == ("equal" if synchronized else "different")
    assert report.verdict == ("equivalent" if synchronized else "different")


def test_a_patchwork_that_was_written_anew_is_not_judged(tmp_path: Path) -> None:
    models = [tensors(rank) for rank in range(2)]
    held = dict.fromkeys(SHAPES, "of the shard")
    wraps = PerRank([wrap(models[rank], models[rank], kind="fsdp", held=held)] for rank in range(2))

    def sharded(step: Step, rank: int, number: int) -> None:
        step.local, step.range = None, (rank / 2, (rank + 1) / 2)

    assert run(tmp_path, sharded, wraps=wraps).verdict == "equivalent"


def test_weights_set_on_one_rank_after_the_wrap(tmp_path: Path) -> None:
    held = tensors(1)
    wraps = [wrap(held, held)]

    def loaded(step: Step, rank: int, number: int) -> None:
        step.weights = tensors(9) if rank == 0 else held

    report = run(tmp_path, loaded, wraps=wraps)
    assert found(report) == [("DP103", WRAP.line)]
    assert "on rank 0 only" in report.findings[0].message
    assert (report.weights.initial, report.weights.after_wrap, report.weights.after_steps) == (
        "equal",
        "equal",
        "different",
    )


def test_weights_drawn_anew_after_the_wrap(tmp_path: Path) -> None:
    held = tensors(1)

    def drawn(step: Step, rank: int, number: int) -> None:
        step.weights = {**held, "0.head.bias": tensors(rank + 3)["0.head.bias"]}

    assert found(run(tmp_path, drawn, wraps=[wrap(held, held)])) == [("DP104", WRAP.line)]


def test_the_same_gradient_but_other_weights(tmp_path: Path) -> None:
    """Optimizer state or a learning rate of one rank alone."""

    def apart(step: Step, rank: int, number: int) -> None:
        if number == 1:
            step.weights = tensors(rank)

    report = run(tmp_path, apart)
    assert (found(report), report.weights.first_difference) == ([("DP103", STEP.line)], 1)


@pytest.mark.parametrize(
    ("rates", "evaluations", "code"),
    [
        ([[0.1, 0.1], [0.1, 0.01]], 4, "DP601"),  # by step, then by rank
        ([[0.1, 0.1], [0.1, 0.01]], 0, "DP103"),
        ([[0.1, 0.01], [0.1, 0.01]], 4, "DP103"),
    ],
)
def test_learning_rates_of_the_ranks_own(tmp_path: Path, rates: list[list[float]], evaluations: int, code: str) -> None:
    """They part once the ranks have evaluated, or without that, or were never equal."""

    def apart(step: Step, rank: int, number: int) -> None:
        step.changes = {"rates": [[*rates, [1, 1]][number][rank]]}
        if number == 2:
            step.weights = tensors(rank)

    world = World(tmp_path, counts=((6,), (6,)), steps=3)
    world.train(world.mean_of_own, change=apart, evaluations=evaluations).refer(world.one_process)
    report = judge(world.evidence())
    assert (report.verdict, found(report)) == ("different", [(code, STEP.line)])
    assert "rank 0 0.1, rank 1 0.01" in report.findings[0].message


@pytest.mark.parametrize("kind", ["fsdp", "fully_shard", "ddp"])
def test_an_optimizer_of_parameters_that_sharding_replaced(tmp_path: Path, kind: str) -> None:
    held = tensors(1)

    def stale(step: Step, rank: int, number: int) -> None:
        step.gradient = {f"optimizer0.{position}": value for position, value in enumerate(step.gradient.values())}
        step.local, step.missing, step.weights = None, list(step.gradient), None

    report = run(tmp_path, stale, wraps=[wrap(held, held, kind=kind)])
    expected = ("inconclusive", []) if kind == "ddp" else ("different", [("DP105", STEP.line)])
    assert (report.verdict, found(report)) == expected


def test_weights_that_follow_from_unequal_gradients_are_no_second_finding(tmp_path: Path) -> None:
    def local(step: Step, rank: int, number: int) -> None:
        assert step.local is not None
        step.gradient = step.local
        if number == 1:
            step.weights = tensors(rank)

    report = run(tmp_path, local)
    assert [code for code, _ in found(report)] == ["DP404"]
    assert report.weights.after_steps == "different"


def buffers(step: Step, values: dict[str, str]) -> None:
    step.changes = {**step.changes, "buffers": values}


def test_state_that_each_rank_updates_for_itself(tmp_path: Path) -> None:
    def updated(step: Step, rank: int, number: int) -> None:
        buffers(step, {"0.codes": f"rank {rank}", "0.scale": "same"})

    report = run(tmp_path, updated)
    assert (report.verdict, found(report)) == ("different", [("DP106", FORWARD.line)])
    assert (report.weights.buffers, report.weights.differing_buffers) == ("different", ["0.codes"])


def test_buffers_set_on_one_rank(tmp_path: Path) -> None:
    held = tensors(1)

    def kept(step: Step, rank: int, number: int) -> None:
        step.weights = held
        buffers(step, {"0.shift": f"rank {rank}"})

    wraps = PerRank([wrap(held, held, buffers_after={"0.shift": f"rank {rank}"})] for rank in range(2))
    assert found(run(tmp_path, kept, wraps=wraps)) == [("DP103", WRAP.line)]


def test_gradients_after_the_models_came_apart_are_not_judged(tmp_path: Path) -> None:
    """A second network that nobody averages: from the second step on the first one's gradients are off as well."""

    def updated(step: Step, rank: int, number: int) -> None:
        buffers(step, {"0.codes": f"rank {rank}"})
        if number == 1:
            step.gradient = {name: value * 1.3 for name, value in step.gradient.items()}

    report = run(tmp_path, updated)
    assert [code for code, _ in found(report)] == ["DP106"]
    assert (report.objective.equal, report.detection.steps) == (True, [0])


def test_norm_statistics_are_a_note(tmp_path: Path) -> None:
    def normed(step: Step, rank: int, number: int) -> None:
        buffers(step, {"0.bn.running_mean": f"rank {rank}", "0.bn.num_batches_tracked": "1"})

    report = run(tmp_path, normed)
    assert (report.verdict, found(report)) == ("equivalent", [])
    assert (report.weights.norm_statistics, report.weights.buffers) == ("different", "unknown")
    assert [note.kind for note in report.notes] == ["norm-statistics"]


# -- data


def reading(step: Step, rank: int, number: int) -> None:
    step.changes = {**step.changes, "fetches": [number]}


def with_data(tmp_path: Path, batches: list[list[list[int]]], loaders: Any = None, **kwargs: Any) -> Report:
    """`batches[rank]` are the indices of each step."""
    taken = PerRank(fetches(own, **kwargs) for own in batches)
    return run(tmp_path, reading, fetches=taken, loaders=loaders or [loader()])


DISJOINT = [[[0, 2, 4, 6], [8, 10, 12, 14]], [[1, 3, 5, 7], [9, 11, 13, 15]]]
SAME = [DISJOINT[0], DISJOINT[0]]


def test_disjoint_data(tmp_path: Path) -> None:
    report = with_data(tmp_path, DISJOINT)
    assert (report.verdict, found(report)) == ("equivalent", [])
    assert (report.data.disjoint, report.data.overlap, report.data.samples, report.data.by) == (
        True,
        0,
        [8, 8],
        "content",
    )
    assert (report.global_batch.microbatch, report.global_batch.accumulation, report.global_batch.samples) == (4, 1, 8)


@pytest.mark.parametrize(
    ("described", "code"),
    [
        ({"sampler": "RandomSampler"}, "DP201"),
        ({"sampler": "BucketBatchSampler"}, "DP201"),
        ({"sampler": "DistributedSampler"}, "DP204"),
        (
            {"sampler": "", "iterable": True, "length": None, "batches": None, "fingerprint": None, "remaining": None},
            "DP202",
        ),
    ],
)
def test_the_same_samples_on_every_rank(tmp_path: Path, described: dict[str, Any], code: str) -> None:
    report = with_data(tmp_path, SAME, [loader(**described)])
    assert (report.verdict, found(report)) == ("different", [(code, LOADER.line)])
    assert (report.data.disjoint, report.data.overlap) == (False, 8)
    assert report.objective.equal is True  # comparing gradients alone would not have seen it


def test_an_unsharded_loader_that_each_rank_shuffles_otherwise(tmp_path: Path) -> None:
    """Nothing is shared in the first steps, and everything over the pass."""
    loaders = PerRank(
        [loader(sampler="RandomSampler", remaining=[i for i in range(24) if i not in np.ravel(own)], batches=6)]
        for own in DISJOINT
    )
    report = with_data(tmp_path, DISJOINT, loaders)
    assert found(report) == [("DP201", LOADER.line)]
    assert (report.data.epoch_overlap, report.data.epoch_samples) == (24, 24)


def test_padding_repeats_a_few(tmp_path: Path) -> None:
    """Seven samples on two ranks, four each; accelerate fills its last batch from the beginning."""
    padded = [[[0, 2], [4, 6]], [[1, 3], [5, 0]]]
    assert found(with_data(tmp_path, padded, [loader(length=7, batch_size=2)])) == []
    filled = [[[0, 1, 2, 3], [8, 9, 10, 11]], [[4, 5, 6, 7], [0, 1, 2, 3]]]
    report = with_data(tmp_path / "filled", filled, [loader(sampler="BatchSamplerShard", length=12)])
    assert (report.verdict, found(report)) == ("equivalent", [])
    assert [note.kind for note in report.notes] == ["shared-samples"]
    assert (report.data.disjoint, report.data.tolerated) == (True, 4)
    in_source = Finding(RULES["DP201"], "", Span(SCRIPT, LOADER.line, 1, LOADER.line, 5))
    [told] = merge(report, [in_source]).static
    assert (told.status, "several ranks saw 4 samples" in told.reason) == ("not-exercised", True)


def test_ranks_that_get_one_shard_two_by_two(tmp_path: Path) -> None:
    """Local ranks for ranks, on two machines of two."""
    world = World(tmp_path, counts=((6,), (6,), (6,), (6,)))
    taken = PerRank(fetches(own) for own in (*DISJOINT, *DISJOINT))
    world.train(world.mean_of_own, change=reading, fetches=taken, loaders=[loader(length=64)]).refer(world.one_process)
    report = judge(world.evidence())
    assert found(report) == [("DP204", LOADER.line)]
    assert report.findings[0].message.startswith("ranks 0 and 2 give the sampler")


def test_a_sampler_seeded_by_rank(tmp_path: Path) -> None:
    mixed = [[[0, 5, 9, 3], [7, 2, 11, 4]], [[5, 1, 7, 8], [0, 10, 3, 6]]]
    assert found(with_data(tmp_path, mixed)) == [("DP205", LOADER.line)]


def test_data_sets_in_different_orders(tmp_path: Path) -> None:
    """The indices are disjoint, the samples behind them are not."""
    world = World(tmp_path, counts=((6,), (6,)))
    taken = PerRank(fetches(own) for own in DISJOINT)
    for own, shift in zip(taken, (0, 3), strict=True):
        for fetch in own:
            fetch.samples = [f"sample-{(int(index) + shift) % 24}" for index in fetch.indices or ()]
    loaders = PerRank([loader(fingerprint=f"24:{rank}")] for rank in range(2))
    world.train(world.mean_of_own, change=reading, fetches=taken, loaders=loaders).refer(world.one_process)
    report = judge(world.evidence())
    assert found(report) == [("DP206", LOADER.line)]
    assert report.findings[0].alternatives[0] == "DP207"


def test_a_data_set_of_its_own_for_each_rank_is_right(tmp_path: Path) -> None:
    world = World(tmp_path, counts=((6,), (6,)))
    taken = PerRank(fetches(DISJOINT[0], contents=f"rank {rank}") for rank in range(2))
    loaders = PerRank([loader(sampler="RandomSampler", fingerprint=f"24:{rank}")] for rank in range(2))
    world.train(world.mean_of_own, change=reading, fetches=taken, loaders=loaders).refer(world.one_process)
    assert judge(world.evidence()).verdict == "equivalent"


def test_examples_that_the_data_set_holds_twice(tmp_path: Path) -> None:
    world = World(tmp_path, counts=((6,), (6,)))
    taken = PerRank(fetches(own) for own in DISJOINT)
    for own in taken:
        for fetch in own:
            fetch.samples = [f"sample-{int(index) // 2}" for index in fetch.indices or ()]  # 0 and 1 are the same
    world.train(world.mean_of_own, change=reading, fetches=taken, loaders=[loader()]).refer(world.one_process)
    report = judge(world.evidence())
    assert (report.verdict, report.data.disjoint) == ("equivalent", True)
    assert [note.kind for note in report.notes] == ["repeated-samples"]


def test_a_stream_that_draws_at_random_meets_by_chance(tmp_path: Path) -> None:
    stream = loader(sampler="", iterable=True, length=None, batches=None, fingerprint=None, remaining=None)
    chance = [[[0, 5, 9, 3], [7, 2, 11, 4]], [[5, 1, 17, 8], [20, 10, 13, 6]]]
    assert with_data(tmp_path, chance, [stream]).verdict == "equivalent"


ORDER = [5, 1, 4, 2, 0, 3]


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (ORDER, ORDER, [("DP203", LOOP.line)]),
        (ORDER, ORDER[::-1], []),
        (sorted(ORDER), sorted(ORDER), []),
    ],
)
def test_epochs(tmp_path: Path, first: list[int], second: list[int], expected: list[tuple[str, int]]) -> None:
    """The order of the first pass again; another one; the natural one, which is no shuffling."""
    taken = PerRank(
        fetches([[index * 2 + rank for index in first]]) + fetches([[index * 2 + rank for index in second]], epoch=1)
        for rank in range(2)
    )
    report = run(tmp_path, reading, fetches=taken, loaders=[loader(passes=2, batch_size=6)])
    assert found(report) == expected
    assert report.data.epoch_repeated == (True if expected else False if first is ORDER else None)


def feeding(rows: list[list[list[str]]], draws: list[list[list[Draw]]] | None = None) -> Any:
    def change(step: Step, rank: int, number: int) -> None:
        step.changes = {"inputs": rows[rank][number], "draws": draws[rank][number] if draws else []}

    return change


def rows(first: list[int], second: list[int]) -> list[list[str]]:
    return [[f"row {index}" for index in first], [f"row {index}" for index in second]]


def randint(digest: str, function: str = "randint") -> Draw:
    return Draw(function, [4], digest, Place(SCRIPT, 30))


def test_the_same_draws(tmp_path: Path) -> None:
    same = rows([1, 7, 3, 9], [4, 4, 0, 2])
    draws = [[[randint("a")], [randint("b")]]] * 2
    report = run(tmp_path, feeding([same, same], draws))
    assert found(report) == [("DP208", 30)]
    assert (report.data.by, report.data.overlap, report.data.samples) == ("inputs", 7, [8, 8])


@pytest.mark.parametrize(
    ("shape", "second", "third", "strict", "verdict", "codes"),
    [
        ([6, 2], "bb", "cc", True, "different", ["DP209"]),
        ([6, 2], "bb", "cc", False, "equivalent", ["DP209"]),
        ([6, 2], "bb", "cd", True, "equivalent", []),  # the ranks part
        ([1, 9], "bb", "cc", True, "equivalent", []),  # one for the whole batch
    ],
)
def test_noise_that_the_ranks_share(
    tmp_path: Path, shape: list[int], second: str, third: str, strict: bool, verdict: str, codes: list[str]
) -> None:
    """`second` and `third` are what each rank draws in steps 1 and 2."""

    def noisy(step: Step, rank: int, number: int) -> None:
        digest = ["aa", second, third][number][rank]
        step.changes = {"fetches": [number], "draws": [Draw("randn_like", shape, digest, Place(SCRIPT, 39))]}

    taken = PerRank(fetches([range(12 * step + rank, 12 * step + 12, 2) for step in range(3)]) for rank in range(2))
    world = World(tmp_path, counts=((6,), (6,)), steps=3)
    world.train(world.mean_of_own, change=noisy, fetches=taken, loaders=[loader(batch_size=6)]).refer(world.one_process)
    report = judge(world.evidence(strict=strict))
    assert (report.verdict, found(report)) == (verdict, [(code, 39) for code in codes])


def reading_much(sampler: str, batches: int) -> dict[str, Any]:
    """Two ranks that read eight samples each of a data set that is too large to be listed."""
    large = loader(sampler=sampler, length=1_000_000, batches=batches, batch_size=4, remaining=None)
    own = [fetches([range(start, start + 4), range(start + 4, start + 8)]) for start in (100, 70_000)]
    return {"fetches": PerRank(own), "loaders": [large]}


@pytest.mark.parametrize(
    ("sampler", "batches", "expected"),
    [
        ("RandomSampler", 250_000, [("DP201", LOADER.line)]),
        ("DistributedSampler", 125_000, []),
        ("RandomSampler", 125_000, []),
        ("RandomSampler with replacement", 250_000, []),
    ],
)
def test_samplers_of_large_data_sets(
    tmp_path: Path, sampler: str, batches: int, expected: list[tuple[str, int]]
) -> None:
    assert found(run(tmp_path, reading, **reading_much(sampler, batches))) == expected


def test_the_same_draws_where_one_rank_draws_more_in_between(tmp_path: Path) -> None:
    """One rank alone evaluates before its first step: from then on it is ahead of the other in the same numbers."""
    evaluates = [[randint("a"), randint("b"), randint("c")], [randint("d")]]
    draws = [evaluates, [[randint("a"), randint("b")], [randint("c")]]]
    inputs = [rows([1, 7, 3, 9], [14, 15, 10, 12]), rows([1, 7, 3, 9], [4, 5, 0, 2])]
    assert found(run(tmp_path / "ahead", feeding(inputs, draws))) == [("DP208", 30)]
    draws[1][1] = [randint("e")]
    assert found(run(tmp_path / "other", feeding(inputs, draws))) == []


def test_draws_of_each_ranks_own_meet_by_chance(tmp_path: Path) -> None:
    draws = [[[randint(f"{rank}a")], [randint(f"{rank}b")]] for rank in range(2)]
    inputs = [rows([1, 7, 3, 9], [4, 5, 0, 2]), rows([1, 17, 13, 19], [14, 15, 0, 12])]
    report = run(tmp_path, feeding(inputs, draws))
    assert (report.verdict, found(report), report.data.disjoint) == ("equivalent", [], True)


def test_the_data_itself_is_drawn_alike(tmp_path: Path) -> None:
    """Random numbers before the first step make the data set; they are the same on all ranks, and rightly so."""
    draws = [[[randint("data", "randn")], []]] * 2
    inputs = [rows([0, 2, 4, 6], [8, 10, 12, 14]), rows([1, 3, 5, 7], [9, 11, 13, 15])]
    assert run(tmp_path, feeding(inputs, draws)).verdict == "equivalent"


def test_a_permutation_of_each_ranks_own(tmp_path: Path) -> None:
    draws = [[[randint("data", "randn"), randint(f"order {rank}", "randperm")], []] for rank in range(2)]
    inputs = [rows([0, 2, 4, 6], [8, 10, 12, 14]), rows([1, 2, 5, 8], [9, 11, 13, 0])]
    assert found(run(tmp_path, feeding(inputs, draws))) == [("DP205", 30)]


def test_parts_cut_from_lists_in_different_orders(tmp_path: Path) -> None:
    inputs = [rows([0, 2, 4, 6], [8, 10, 12, 14]), rows([1, 2, 5, 8], [9, 11, 13, 0])]
    report = run(tmp_path, feeding(inputs))
    assert found(report) == [("DP207", FORWARD.line)]
    assert set(report.findings[0].alternatives) >= {"DP204", "DP205", "DP206"}


def test_every_rank_feeds_the_same(tmp_path: Path) -> None:
    same = rows([0, 2, 4, 6], [8, 10, 12, 14])
    assert found(run(tmp_path, feeding([same, same]))) == [("DP202", FORWARD.line)]


def test_inputs_of_few_kinds_must_meet(tmp_path: Path) -> None:
    inputs = [rows([0, 1, 0, 1], [1, 1, 0, 0]), rows([1, 0, 0, 1], [0, 1, 0, 0])]
    assert run(tmp_path, feeding(inputs)).verdict == "equivalent"


def test_unequal_numbers_of_batches_alone_are_a_note(tmp_path: Path) -> None:
    loaders = PerRank([loader(batches=3 + rank)] for rank in range(2))
    report = with_data(tmp_path, DISJOINT, loaders)
    assert (report.verdict, report.data.batches) == ("equivalent", [3, 4])
    assert [note.kind for note in report.notes] == ["uneven-batches"]


# -- synchronization


def own_gradient(step: Step, rank: int, number: int) -> None:
    assert step.local is not None
    step.gradient = step.local


def wrapped() -> list[Any]:
    held = World(Path("unused")).weights[0]
    return [wrap(held, held)]


def held(step: Step) -> None:
    step.weights = World(Path("unused")).weights[0]


def test_a_forward_past_the_wrapper(tmp_path: Path) -> None:
    def bypassing(step: Step, rank: int, number: int) -> None:
        own_gradient(step, rank, number)
        held(step)
        step.changes = {"bypassed": 1}

    report = run(tmp_path, bypassing, wraps=wrapped())
    assert (report.verdict, found(report)) == ("different", [("DP401", FORWARD.line)])
    assert report.findings[0].alternatives == []
    assert (report.sync.agree, report.sync.differing, report.sync.compared, report.sync.step) == (False, 3, 3, 0)
    assert (report.objective.judged, report.objective.reason) == (False, "in step 0 the ranks used different gradients")


def test_no_backward_is_synchronized(tmp_path: Path) -> None:
    def local(step: Step, rank: int, number: int) -> None:
        own_gradient(step, rank, number)
        held(step)

    notes = [Note("no-sync", "gradients stay", Place(SCRIPT, 39))]
    report = run(tmp_path, local, wraps=wrapped(), notes=notes)
    assert found(report) == [("DP402", 39)]
    assert report.notes == []


@pytest.mark.parametrize("last", [0, 1])
def test_the_last_micro_batch_stays_local(tmp_path: Path, last: int) -> None:
    counts = ((4, 4, 4), (4, 4, 4))
    world = World(tmp_path, counts=counts)

    def early(step: Step, rank: int, number: int) -> None:
        parts = [world.local_parts(number, each, world.mean_of_own) for each in range(2)]
        reduced = mean([plus(*own[: last + 1]) for own in parts])
        step.gradient = plus(reduced, *parts[rank][last + 1 :])
        held(step)

    notes = [Note("no-sync", "gradients stay", Place(SCRIPT, 39))]
    report = run(tmp_path, early, counts=counts, wraps=wrapped(), notes=notes)
    assert found(report) == [("DP402", 39)]
    assert f"averaged after backward {last + 1} of 3" in report.findings[0].message


def test_parameters_that_the_wrapper_does_not_know(tmp_path: Path) -> None:
    def partly(step: Step, rank: int, number: int) -> None:
        assert step.local is not None
        step.gradient = {**step.gradient, "0.head.bias": step.local["0.head.bias"]}
        held(step)

    report = run(tmp_path, partly, wraps=wrapped())
    assert found(report) == [("DP104", WRAP.line)]
    assert (report.sync.differing, report.sync.tensors) == (1, ["0.head.bias"])


def test_parameters_that_nothing_reduces(tmp_path: Path) -> None:
    def partly(step: Step, rank: int, number: int) -> None:
        assert step.local is not None
        step.gradient = {**step.gradient, "0.head.bias": step.local["0.head.bias"]}

    report = run(tmp_path, partly)
    assert found(report) == [("DP404", STEP.line)]
    assert "head.bias" in report.findings[0].message


def test_a_second_model_that_is_not_wrapped(tmp_path: Path) -> None:
    def renamed(step: Step, rank: int, number: int) -> None:
        own_gradient(step, rank, number)
        for part in (step.gradient, step.local):
            assert part is not None
        step.gradient = {name.replace("0.", "1.", 1): value for name, value in step.gradient.items()}
        step.local = step.gradient
        step.weights = {name.replace("0.", "1.", 1): value for name, value in (step.weights or {}).items()}

    report = run(tmp_path, renamed, wraps=wrapped())
    assert found(report) == [("DP404", STEP.line)]
    assert "not wrapped" in report.findings[0].message


def test_a_gradient_that_one_rank_lacks(tmp_path: Path) -> None:
    def lacking(step: Step, rank: int, number: int) -> None:
        if rank == 1:
            step.missing = ["0.head.bias"]

    assert found(run(tmp_path, lacking)) == [("DP404", STEP.line)]


def test_an_optimizer_of_which_each_rank_holds_a_part(tmp_path: Path) -> None:
    """ZeroRedundancyOptimizer: a tensor that the other rank does not step is no disagreement."""

    def part(step: Step, rank: int, number: int) -> None:
        names = list(SHAPES)[:2] if rank == 0 else list(SHAPES)[2:]
        step.gradient = {name: step.gradient[name] for name in names}
        step.local = {name: (step.local or {})[name] for name in names}

    report = run(tmp_path, part)
    assert (report.verdict, found(report)) == ("equivalent", [])


def test_ranks_that_differ_by_rounding_agree(tmp_path: Path) -> None:
    def rounded(step: Step, rank: int, number: int) -> None:
        step.gradient = {name: value * (1 + rank * 4e-16) for name, value in step.gradient.items()}
        if number:
            step.weights = {name: value * (1 + rank * 4e-16) for name, value in (step.weights or {}).items()}

    report = run(tmp_path, rounded)
    assert (report.verdict, found(report), report.sync.agree) == ("equivalent", [], True)


def test_shards_are_put_together(tmp_path: Path) -> None:
    def sharded(step: Step, rank: int, number: int) -> None:
        step.local, step.range = None, (rank / 2, (rank + 1) / 2)

    report = run(tmp_path, sharded)
    assert (report.verdict, report.sync.agree, report.sync.exact) == ("equivalent", None, None)
    assert report.detection.judged_parameters == 39


def test_reduced_in_every_backward_is_exact_to_rounding(tmp_path: Path) -> None:
    counts = ((4, 4), (4, 4))
    world = World(tmp_path, counts=counts)

    def every(step: Step, rank: int, number: int) -> None:
        parts = [world.local_parts(number, each, world.mean_of_own) for each in range(2)]
        first = mean([own[0] for own in parts])
        step.gradient = mean([plus(first, own[1]) for own in parts])

    report = run(tmp_path, every, counts=counts)
    assert (report.verdict, report.sync.exact, report.sync.bitwise) == ("equivalent", True, False)


# -- out of step, and not parallel at all


def test_a_batch_skipped_on_one_rank(tmp_path: Path) -> None:
    def skipping(step: Step, rank: int, number: int) -> None:
        if (rank, number) == (1, 1):
            step.forwards = 2
            step.gradient = {name: value * 1.5 for name, value in step.gradient.items()}

    report = run(tmp_path, skipping)
    assert (report.verdict, found(report)) == ("mismatch", [("DP502", FORWARD.line)])
    assert "rank 0 1, rank 1 2" in report.findings[0].message
    assert (report.objective.judged, report.detection.steps) == (False, [])


def test_an_extra_forward_that_changes_nothing_is_none(tmp_path: Path) -> None:
    def extra(step: Step, rank: int, number: int) -> None:
        step.forwards = 1 + rank

    assert run(tmp_path, extra).verdict == "equivalent"


def test_a_script_that_is_not_parallel(tmp_path: Path) -> None:
    report = run(tmp_path, own_gradient, collectives=[])
    assert (report.verdict, found(report)) == ("inconclusive", [])
    assert report.reason.startswith("the script never ran data-parallel")


def test_ranks_of_a_process_group_that_share_nothing(tmp_path: Path) -> None:
    report = run(tmp_path, own_gradient, collectives=[], group=2)
    assert (report.verdict, found(report)) == ("different", [("DP404", STEP.line)])


def test_weights_that_are_averaged_after_steps_with_own_gradients(tmp_path: Path) -> None:
    averages = [script_collective("all_reduce", 50, 1)]
    report = run(tmp_path, own_gradient, collectives=averages)
    assert (report.verdict, found(report)) == ("inconclusive", [])
    assert "average their weights" in report.reason


def test_weights_that_one_rank_dictates_after_steps_with_own_gradients(tmp_path: Path) -> None:
    report = run(tmp_path, own_gradient, collectives=[script_collective("broadcast", 50, 1)])
    assert (report.verdict, found(report)) == ("different", [("DP404", STEP.line)])


def test_a_script_that_says_it_averages_weights(tmp_path: Path) -> None:
    note = Note("model-averaging", "the ranks' weights are averaged from time to time", Place(SCRIPT, 30))
    report = run(tmp_path, own_gradient, notes=[note])
    assert (report.verdict, found(report)) == ("inconclusive", [])


@pytest.mark.parametrize(("kind", "verdict"), [("comm-hook", "equivalent"), ("approximating-hook", "inconclusive")])
def test_a_communication_hook_that_was_not_applied(tmp_path: Path, kind: str, verdict: str) -> None:
    said = "the communication hook lossy was not applied and is not judged"
    report = run(tmp_path, notes=[Note(kind, said, WRAP)])
    assert report.verdict == verdict
    assert (said in report.reason) is (verdict == "inconclusive")


def test_collectives_of_one_step_are_counted(tmp_path: Path) -> None:
    calls = [
        reduction(0, name="broadcast", operation=None),
        reduction(0),
        reduction(1),
        script_collective("barrier", 50, 1),
    ]
    report = run(tmp_path, collectives=calls)
    assert (report.collectives.matched, report.collectives.compared) == (True, 4)
    assert (report.collectives.per_step, report.collectives.bytes_per_step) == (2, 312)


def test_what_a_reference_notes_where_a_rank_spoke_is_not_said_twice(tmp_path: Path) -> None:
    def note(text: str, line: int) -> Note:
        return Note("launcher", text, Place(SCRIPT, line))

    world = World(tmp_path, counts=((6,), (6,)))
    world.train(world.mean_of_own, notes=[note("with nprocs=2", 9)]).refer(world.one_process)
    recording = world.references["union"].recording
    assert recording is not None
    recording.notes += [note("with nprocs=1", 9), note("alone", 10)]
    assert [said.text for said in judge(world.evidence()).notes] == ["with nprocs=2", "alone"]
