"""Every row of the diagnosis table that speaks of the gradient, and right scripts beside them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dpcheck.verify.judge.verdict import judge
from dpcheck.verify.recording import Fetch, Loss, Place
from dpcheck.verify.result import Report
from tests.verify.recordings import (
    CLIP,
    LOSS,
    SCRIPT,
    SHAPES,
    STEP,
    PerRank,
    Step,
    Tensors,
    World,
    loader,
    mean,
    plus,
    reduction,
    scaled,
    script_collective,
)


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def codes(report: Report) -> list[str]:
    return [finding.code for finding in report.findings]


# -- right scripts


def test_right_with_rounding_noise(tmp_path: Path) -> None:
    world = World(tmp_path)
    report = judge(world.train(world.global_mean).refer(world.one_process, noise=4e-15).evidence())
    assert (report.verdict, codes(report)) == ("equivalent", [])
    assert report.reason == "the 2 ranks together computed the update of one process in 2 steps"
    assert report.objective.equal is True
    assert report.objective.explanation == "equivalent"
    assert report.objective.relative_error is not None
    assert 1e-17 < report.objective.relative_error < 1e-14
    assert report.objective.k == pytest.approx(1, abs=1e-12)
    assert report.objective.targets == [9, 3]
    assert report.objective.target_weights == [[pytest.approx(1 / 12, rel=1e-5)], [pytest.approx(1 / 12, rel=1e-5)]]
    assert report.sync.exact is True
    assert report.sync.bitwise is True
    assert (report.weights.after_steps, report.collectives.matched) == ("equal", True)


def test_equal_counts_hide_a_per_rank_mean_and_it_is_said(tmp_path: Path) -> None:
    world = World(tmp_path, counts=((6,), (6,)))
    report = judge(world.train(world.mean_of_own).refer(world.one_process).evidence())
    assert (report.verdict, codes(report)) == ("equivalent", [])
    assert report.detection.hides_per_rank_mean is True
    assert report.detection.per_rank_mean == 0
    assert any("--uneven" in said for said in report.detection.unseen)


def test_the_detection_limit(tmp_path: Path) -> None:
    world = World(tmp_path)
    report = judge(world.train(world.global_mean).refer(world.one_process).evidence())
    detection = report.detection
    assert detection.hides_per_rank_mean is False
    assert detection.per_rank_mean is not None
    assert detection.per_rank_mean > 0.05
    assert detection.smallest_weight_error is not None
    assert 1e-9 < detection.smallest_weight_error < 1e-7
    assert detection.steps == [0, 1]
    assert detection.parameters == detection.judged_parameters == sum(np.prod(shape) for shape in SHAPES.values())
    assert [(loss.function, loss.path, loss.line) for loss in detection.losses] == [("cross_entropy", SCRIPT, 41)]
    # What the detection limit promises: a weight off by a little more is seen, by a little less is not.
    for excess, verdict in ((1.5, "different"), (0.5, "inconclusive")):
        off = World(tmp_path / f"{excess}")
        by = 1 + excess * detection.smallest_weight_error
        heaviest = max(
            range(2), key=lambda rank: float(np.linalg.norm(_flat(world.local_parts(0, rank, world.global_mean)[0])))
        )
        off.train(
            lambda rank, micro, by=by, heaviest=heaviest: (
                world.global_mean(rank, micro) * (by if rank == heaviest else 1)
            )
        )
        assert judge(off.refer(off.one_process).evidence()).verdict == verdict


def _flat(tensors: Tensors) -> np.ndarray:
    return np.concatenate([tensor.reshape(-1) for tensor in tensors.values()])


def test_gradients_that_are_all_zero_prove_nothing(tmp_path: Path) -> None:
    world = World(tmp_path)
    zero = {name: np.zeros(shape) for name, shape in SHAPES.items()}
    world.vectors = [[[[zero] * count for count in micro] for micro in world.counts] for _ in range(2)]
    report = judge(world.train(world.mean_of_own).refer(world.one_process).evidence())
    assert (report.verdict, report.objective.explanation, codes(report)) == ("inconclusive", "vacuous", [])
    assert "zero" in report.reason


def test_a_tensor_whose_gradient_is_zero_by_construction_is_all_rounding(tmp_path: Path) -> None:
    world = World(tmp_path)
    for step in world.vectors:
        for rank in step:
            for micro in rank:
                for vector in micro:
                    vector["0.head.bias"] *= 1e-16
    report = judge(world.train(world.global_mean).refer(world.one_process, noise=1e-15).evidence())
    assert report.verdict == "equivalent"
    noisy = World(tmp_path / "noisy")

    def noise(step: Step, number: int) -> None:
        step.gradient["0.head.bias"] = np.full(3, 1e-14)

    for step in noisy.vectors:
        for rank in step:
            for micro in rank:
                for vector in micro:
                    vector["0.head.bias"] *= 0
    assert (
        judge(noisy.train(noisy.global_mean).refer(noisy.one_process, change=noise).evidence()).verdict == "equivalent"
    )


def test_a_single_tensor_that_is_off_is_seen(tmp_path: Path) -> None:
    world = World(tmp_path)

    def spoil(step: Step, number: int) -> None:
        step.gradient["0.head.bias"] = step.gradient["0.head.bias"] * (1 + 3e-8)

    for step in world.vectors:
        for rank in step:
            for micro in rank:
                for vector in micro:
                    vector["0.head.bias"] *= 0.1
    report = judge(world.train(world.global_mean).refer(world.one_process, change=spoil).evidence())
    assert report.objective.relative_error is not None
    assert report.objective.relative_error < 1e-8
    assert report.verdict == "different"
    assert [(tensor.name, tensor.failed) for tensor in report.objective.worst][:2] == [
        ("0.head.bias", True),
        (report.objective.worst[1].name, False),
    ]


@pytest.mark.parametrize(
    ("response", "verdict"), [(None, "inconclusive"), (1e-10, "equivalent"), (1e-12, "inconclusive")]
)
def test_between_rounding_and_difference(tmp_path: Path, response: float | None, verdict: str) -> None:
    world = World(tmp_path).train(World(tmp_path).global_mean)
    world.refer(world.one_process, noise=8e-10)
    if response is not None:
        world.refer(lambda micro: world.one_process(micro) * (1 + response), "perturbed-0", noise=8e-10)
    report = judge(world.evidence())
    assert report.verdict == verdict
    assert (report.objective.explanation == "equivalent") == (verdict == "equivalent")


@pytest.mark.parametrize(("response", "verdict"), [(None, "different"), (1e-5, "equivalent"), (1e-7, "different")])
def test_rounding_of_float32_that_the_model_enlarges(tmp_path: Path, response: float | None, verdict: str) -> None:
    """Ten times what other rounding of the weights changes is the bound."""
    world = World(tmp_path).train(World(tmp_path).global_mean)
    world.refer(world.one_process, noise=5e-5)
    if response is not None:
        world.refer(lambda micro: world.one_process(micro) * (1 + response), "perturbed-1", noise=5e-5)
    assert judge(world.evidence(dtype="float32")).verdict == verdict


def test_a_single_tensor_beyond_rounding_counts(tmp_path: Path) -> None:
    """The rest of the gradient answers to rounding as it does, this tensor does not."""

    def off(step: Step, rank: int, number: int) -> None:
        step.gradient = {**step.gradient, "0.head.bias": step.gradient["0.head.bias"] * (1 + 5e-9)}
        step.local = None

    def enlarged(step: Step, number: int) -> None:
        weight = step.gradient["0.embed.weight"]
        step.gradient = {**step.gradient, "0.embed.weight": weight * (1 + 5e-9)}

    world = World(tmp_path)
    world.train(world.global_mean, change=off).refer(world.one_process)
    world.refer(world.one_process, "perturbed-1", change=enlarged)
    assert judge(world.evidence()).verdict == "inconclusive"


def test_float32_is_coarse_and_says_so(tmp_path: Path) -> None:
    world = World(tmp_path)
    report = judge(world.train(world.global_mean).refer(world.one_process, noise=1e-7).evidence(dtype="float32"))
    assert (report.verdict, report.objective.coarse, report.objective.tolerance) == ("equivalent", True, 1e-5)
    assert any("float32" in said for said in report.detection.unseen)
    wrong = World(tmp_path / "wrong")
    assert "DP301" in codes(
        judge(wrong.train(wrong.mean_of_own).refer(wrong.one_process, noise=1e-7).evidence(dtype="float32"))
    )


def test_no_reference_is_inconclusive_with_its_reason(tmp_path: Path) -> None:
    world = World(tmp_path)
    report = judge(world.train(world.global_mean).evidence(failure="as one process the script fails: ValueError: n"))
    assert (report.verdict, report.reason) == ("inconclusive", "as one process the script fails: ValueError: n")


@pytest.mark.parametrize(
    ("steps", "verdict", "reason"),
    [
        ([1], "equivalent", "the 2 ranks together computed the update of one process in 1 step"),
        ([0, 1], "inconclusive", "the gradients of step 0 are not finite"),
    ],
)
def test_gradients_that_are_not_finite(tmp_path: Path, steps: list[int], verdict: str, reason: str) -> None:
    world = World(tmp_path)
    for step in steps:
        world.vectors[step][0][0][0]["0.head.bias"][1] = np.nan
    report = judge(world.train(world.global_mean).refer(world.one_process).evidence())
    assert (report.verdict, report.reason) == (verdict, reason)
    if verdict == "equivalent":
        assert "the gradients of 1 step: 1 (the gradients of step 1 are not finite)" in report.detection.unseen


@pytest.mark.parametrize("empty", [True, False])
def test_gradients_that_are_finite_in_one_process_alone(tmp_path: Path, empty: bool) -> None:
    """A mean over no target is 0/0, and one rank's NaN becomes everybody's."""

    def lacking(step: Step, rank: int, number: int) -> None:
        if rank == 1 and empty:
            step.targets = [(Loss("cross_entropy", "mean", 0, 4, 0, LOSS, weighed=True), np.zeros(0))]

    world = World(tmp_path)
    world.train(world.global_mean, combine=lambda own, rank: scaled(mean(own), np.nan), change=lacking)
    report = judge(world.refer(world.one_process).evidence())
    assert (report.verdict, codes(report)) == ("different", ["DP301"] if empty else [])
    said = "rank 1 has no target in step 0" if empty else "the gradients of the ranks are not finite"
    assert said in report.reason


def test_a_reference_alone_that_is_not_finite_says_nothing(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.train(world.global_mean).refer(lambda micro: np.nan)
    report = judge(world.evidence())
    assert report.verdict == "inconclusive"
    assert "those of the ranks are" in report.reason


def test_three_ranks(tmp_path: Path) -> None:
    world = World(tmp_path, counts=((4,), (2,), (7,)))
    report = judge(world.train(world.global_mean).refer(world.one_process).evidence())
    assert (report.verdict, report.sync.exact) == ("equivalent", True)
    wrong = World(tmp_path / "wrong", counts=((4,), (2,), (7,)))
    report = judge(wrong.train(wrong.mean_of_own).refer(wrong.one_process).evidence())
    assert (report.verdict, codes(report)) == ("different", ["DP301"])
    assert report.objective.fitted == pytest.approx([4 / 13, 2 / 13, 7 / 13])


def test_thinned_tensors_give_the_same_answers(tmp_path: Path) -> None:
    whole, thin = World(tmp_path / "whole"), World(tmp_path / "thin")

    def thinned(step: Step, *_: int) -> None:
        step.stride = 3

    def thinned_reference(step: Step, number: int) -> None:
        step.stride = 2  # every sixth element is kept on both sides

    one = judge(whole.train(whole.mean_of_own).refer(whole.one_process).evidence())
    other = judge(
        thin.train(thin.mean_of_own, change=thinned).refer(thin.one_process, change=thinned_reference).evidence()
    )
    assert codes(one) == codes(other) == ["DP301"]
    assert other.objective.fitted == pytest.approx([0.75, 0.25])
    assert other.objective.relative_error == pytest.approx(one.objective.relative_error or 0, rel=0.9)


def test_a_tensor_on_one_side_only_is_reported(tmp_path: Path) -> None:
    world = World(tmp_path)

    def renamed(step: Step, number: int) -> None:
        step.gradient["1.other"] = step.gradient.pop("0.head.bias")

    report = judge(world.train(world.global_mean).refer(world.one_process, change=renamed).evidence())
    assert report.objective.unmatched == ["0.head.bias", "1.other"]
    assert report.verdict == "equivalent"
    assert report.detection.judged_parameters == report.detection.parameters - 3
    assert any("2 tensors that only one side has" in said for said in report.detection.unseen)


# -- means


def test_a_per_rank_mean(tmp_path: Path) -> None:
    world = World(tmp_path)
    report = judge(world.train(world.mean_of_own).refer(world.one_process).evidence())
    assert report.verdict == "different"
    [finding] = report.findings
    assert (finding.code, finding.name, finding.severity, finding.path, finding.line) == (
        "DP301",
        "per-rank-mean",
        "error",
        SCRIPT,
        LOSS.line,
    )
    objective = report.objective
    assert objective.explanation == "per-rank-mean"
    assert objective.targets == [9, 3]
    assert objective.target_weights == [[pytest.approx(1 / 18, rel=1e-5)], [pytest.approx(1 / 6, rel=1e-5)]]
    assert objective.fitted == pytest.approx([0.75, 0.25])
    assert "each of rank 1's targets weighs 3 × each of rank 0's" in objective.sentence
    assert "targets: rank 0 9, rank 1 3" in finding.evidence
    assert [term.ratios for term in objective.terms] == [pytest.approx([12 / 18, 2.0])]
    assert report.sync.exact is True


def test_a_single_target_is_called_so(tmp_path: Path) -> None:
    world = World(tmp_path, counts=((3,), (1,)))
    report = judge(world.train(world.mean_of_own).refer(world.one_process).evidence())
    assert "rank 1's single target weighs 3 × each of rank 0's" in report.objective.sentence


def test_one_step_with_equal_counts_does_not_hide_the_others(tmp_path: Path) -> None:
    world = World(tmp_path)

    def equal(step: Step, rank: int, number: int) -> None:
        if number == 0:
            step.gradient = world.whole(0, world.one_process)

    report = judge(world.train(world.mean_of_own, change=equal).refer(world.one_process).evidence())
    assert [(step.step, step.explanation) for step in report.objective.steps] == [(0, "equal"), (1, "per-rank-mean")]
    assert (report.verdict, report.objective.step, codes(report)) == ("different", 1, ["DP301"])


def test_a_sum_over_the_ranks_own_count(tmp_path: Path) -> None:
    world = World(tmp_path)
    report = judge(world.train(world.mean_of_own, reduction="sum").refer(world.one_process).evidence())
    assert codes(report) == ["DP302"]
    assert report.findings[0].line == LOSS.line


def test_a_count_reduced_over_another_group(tmp_path: Path) -> None:
    world = World(tmp_path)
    calls = PerRank(
        [
            [
                script_collective("all_reduce", 33, step, operation="SUM", shape=[], bytes=8, group=[rank])
                for step in range(2)
            ]
            + [reduction(step) for step in range(2)]
            for rank in range(2)
        ]
    )
    report = judge(world.train(world.mean_of_own, collectives=calls).refer(world.one_process).evidence())
    assert [(finding.code, finding.line) for finding in report.findings] == [("DP308", 33)]
    assert [related.line for related in report.findings[0].related] == [LOSS.line]


def test_a_mean_without_counts_is_told_by_the_fit(tmp_path: Path) -> None:
    world = World(tmp_path)

    def uncounted(step: Step, *_: int) -> None:
        step.targets = ()

    report = judge(
        world.train(world.mean_of_own, change=uncounted).refer(world.one_process, change=uncounted).evidence()
    )
    assert codes(report) == ["DP301"]
    assert report.objective.targets == []
    assert report.objective.fitted == pytest.approx([0.75, 0.25])
    assert report.findings[0].line == 40


def test_two_terms_of_which_one_is_off(tmp_path: Path) -> None:
    """The first loss is divided rightly, the second by the rank's own count: no weighting of the g_i is the whole."""
    world = World(tmp_path)
    boxes = Place(SCRIPT, 52)
    right = {r: [world.part(s, r, 0, world.global_mean(r, 0)) for s in range(2)] for r in range(2)}
    other = World(tmp_path / "unused")
    other.vectors = [
        [
            [[World._vector(np.random.default_rng(s * 9 + r * 5 + j)) for j in range(n)] for n in own]
            for r, own in enumerate(((2,), (5,)))
        ]
        for s in range(2)
    ]
    other.counts = ((2,), (5,))
    box = {r: [other.part(s, r, 0, 1 / other.counts[r][0]) for s in range(2)] for r in range(2)}

    def ranks(step: Step, rank: int, number: int) -> None:
        step.local = plus(right[rank][number], box[rank][number])
        step.gradient = mean([plus(right[r][number], box[r][number]) for r in range(2)])
        count = other.counts[rank][0]
        step.targets = [
            *step.targets,
            (Loss("l1_loss", "sum", count, count, 0, boxes, weighed=True), np.full(count, 1 / count)),
        ]

    def reference(step: Step, number: int) -> None:
        step.gradient = plus(step.gradient, other.whole(number, lambda micro: 1 / 7))
        step.targets = [*step.targets, (Loss("l1_loss", "sum", 7, 7, 0, boxes, weighed=True), np.full(7, 1 / 7))]

    report = judge(world.train(world.global_mean, change=ranks).refer(world.one_process, change=reference).evidence())
    assert report.verdict == "different"
    assert [(finding.code, finding.line) for finding in report.findings] == [("DP302", 52)]
    assert report.objective.explanation == "terms-off"
    assert [term.ratios for term in report.objective.terms] == [pytest.approx([1, 1]), pytest.approx([7 / 4, 7 / 10])]


def test_own_gradients_unseen_the_targets_weights_tell(tmp_path: Path) -> None:
    world = World(tmp_path)

    def sharded(step: Step, rank: int, number: int) -> None:
        step.local, step.range = None, (rank / 2, (rank + 1) / 2)

    report = judge(world.train(world.mean_of_own, change=sharded).refer(world.one_process).evidence())
    assert (codes(report), report.objective.explanation) == (["DP301"], "per-rank-mean")
    assert report.sync.exact is None
    right = World(tmp_path / "right")
    report = judge(right.train(right.global_mean, change=sharded).refer(right.one_process).evidence())
    assert (report.verdict, report.objective.judged) == ("equivalent", True)


# -- constant factors


def counting_calls(world: World, line: int = 33) -> list:
    return [
        call
        for step in range(world.steps)
        for call in (script_collective("all_reduce", line, step, operation="SUM", shape=[], bytes=8), reduction(step))
    ]


def test_a_global_count_without_the_world_size(tmp_path: Path) -> None:
    world = World(tmp_path)
    report = judge(
        world.train(lambda r, i: 1 / 12, reduction="sum", collectives=counting_calls(world))
        .refer(world.one_process)
        .evidence()
    )
    assert report.verdict == "different"
    assert [(finding.code, finding.severity, finding.line) for finding in report.findings] == [
        ("DP303", "warning", LOSS.line)
    ]
    assert report.objective.k == pytest.approx(0.5)
    assert report.objective.residual == pytest.approx(0, abs=1e-12)
    assert report.objective.explanation == "missing-world-size-factor"


def test_a_global_count_is_told_by_its_collective_where_no_loss_was_seen(tmp_path: Path) -> None:
    world = World(tmp_path)

    def uncounted(step: Step, *_: int) -> None:
        step.targets = ()

    calls = counting_calls(world)
    trained = world.train(lambda r, i: 1 / 12, change=uncounted, collectives=calls)
    report = judge(trained.refer(world.one_process, change=uncounted).evidence())
    assert codes(report) == ["DP303"]
    assert [related.line for related in report.findings[0].related] == [33]


@pytest.mark.parametrize("logged", [False, True])
def test_a_constant_divisor_cannot_be_decided(tmp_path: Path, logged: bool) -> None:
    """sum / batch size of a rank: right, and one process has 1/W of it. A loss reduced for the log is no count."""
    world = World(tmp_path, counts=((6,), (6,)))
    calls = [reduction(0), script_collective("all_reduce", 60, 1, operation="SUM", shape=[], bytes=8), reduction(1)]
    trained = world.train(lambda r, i: 1 / 6, reduction="sum", **({"collectives": calls} if logged else {}))
    report = judge(trained.refer(lambda micro: 1 / 6).evidence())
    assert (report.verdict, report.objective.explanation) == ("inconclusive", "undecidable-factor")
    assert report.objective.k == pytest.approx(0.5)
    assert [(finding.code, finding.severity, finding.confidence) for finding in report.findings] == [
        ("DP303", "note", "low")
    ]
    assert "constant" in report.reason


def test_a_mean_that_is_too_small_by_the_world_size_is_decided(tmp_path: Path) -> None:
    """Both sides divide by their own count: no constant explains the factor, a plain gather does."""
    world = World(tmp_path, counts=((6,), (6,)))

    def whole_matrix(step: Step, *_: int) -> None:
        step.targets = [(Loss("cross_entropy", "mean", 12, 12, 0, LOSS, weighed=True), np.full(12, 1 / 12))]

    calls = [
        call
        for step in range(2)
        for call in (
            script_collective("all_gather", 28, step, shape=[6, 4], dtype="float64", bytes=192),
            reduction(step),
        )
    ]
    trained = world.train(lambda r, i: 1 / 12, change=whole_matrix, collectives=calls)
    report = judge(trained.refer(world.one_process, change=whole_matrix).evidence())
    assert (report.verdict, [(finding.code, finding.line) for finding in report.findings]) == (
        "different",
        [("DP306", 28)],
    )
    alone = World(tmp_path / "alone", counts=((6,), (6,)))
    report = judge(
        alone.train(lambda r, i: 1 / 12, change=whole_matrix).refer(alone.one_process, change=whole_matrix).evidence()
    )
    assert (report.verdict, codes(report)) == ("different", ["DP303"])


def test_averaged_twice(tmp_path: Path) -> None:
    world = World(tmp_path)
    trained = world.train(
        world.global_mean,
        combine=lambda own, rank: scaled(mean(own), 0.5),
        collectives=[
            script_collective("all_reduce", 47, step, operation="SUM", shape=[39], bytes=312) for step in range(2)
        ],
    )
    report = judge(trained.refer(world.one_process).evidence())
    assert [(finding.code, finding.line) for finding in report.findings] == [("DP303", 47)]
    assert report.objective.explanation == "averaged-twice"
    assert (report.sync.exact, report.sync.factor) == (True, pytest.approx(0.5))


def test_a_mean_times_the_world_size(tmp_path: Path) -> None:
    world = World(tmp_path, counts=((6,), (6,)))
    report = judge(world.train(lambda r, i: 2 / 6).refer(world.one_process).evidence())
    assert [(finding.code, finding.line) for finding in report.findings] == [("DP304", LOSS.line)]
    assert report.objective.k == pytest.approx(2)


def test_gradients_added_up(tmp_path: Path) -> None:
    world = World(tmp_path, counts=((6,), (6,)))
    calls = [script_collective("all_reduce", 47, step, operation="SUM", shape=[39], bytes=8192) for step in range(2)]
    trained = world.train(world.mean_of_own, combine=lambda own, rank: plus(*own), collectives=calls)
    report = judge(trained.refer(world.one_process).evidence())
    assert [(finding.code, finding.line) for finding in report.findings] == [("DP304", 47)]
    assert report.objective.explanation == "summed"


def test_a_factor_that_is_no_power_of_the_world_size(tmp_path: Path) -> None:
    world = World(tmp_path)
    report = judge(world.train(lambda r, i: 3 * world.global_mean(r, i)).refer(world.one_process).evidence())
    assert (report.verdict, report.objective.explanation, codes(report)) == ("different", "constant-factor", [])
    assert report.objective.k == pytest.approx(3)


# -- collectives in the loss, batches that are coupled


def coupled(world: World, scale: float = 1.0):
    """One process's gradient has terms that no rank has."""

    def change(step: Step, number: int) -> None:
        random = np.random.default_rng(number)
        step.gradient = {
            name: value + scale * random.standard_normal(value.shape) for name, value in step.gradient.items()
        }

    return change


def test_a_loss_that_sees_its_own_batch_only(tmp_path: Path) -> None:
    world = World(tmp_path, counts=((6,), (6,)))
    report = judge(world.train(world.mean_of_own).refer(world.one_process, change=coupled(world)).evidence())
    assert (report.verdict, codes(report), report.objective.explanation) == ("different", ["DP307"], "local-batch-loss")


@pytest.mark.parametrize("residual", [True, False])
def test_a_plain_gather_in_the_loss(tmp_path: Path, residual: bool) -> None:
    world = World(tmp_path, counts=((6,), (6,)))
    calls = [
        call
        for step in range(2)
        for call in (script_collective("all_gather", 28, step, shape=[6, 4], carries_gradient=True), reduction(step))
    ]
    weight = world.mean_of_own if residual else lambda r, i: 1 / 12
    trained = world.train(weight, collectives=calls)
    report = judge(trained.refer(world.one_process, change=coupled(world) if residual else None).evidence())
    assert [(finding.code, finding.line) for finding in report.findings] == [("DP306", 28)]


def test_a_plain_gather_that_is_put_right_is_no_finding(tmp_path: Path) -> None:
    world = World(tmp_path, counts=((6,), (6,)))
    calls = [
        call
        for step in range(2)
        for call in (script_collective("all_gather", 28, step, shape=[6, 4], carries_gradient=True), reduction(step))
    ]
    report = judge(world.train(world.mean_of_own, collectives=calls).refer(world.one_process).evidence())
    assert (report.verdict, codes(report)) == ("equivalent", [])


def test_other_padding_is_not_decided(tmp_path: Path) -> None:
    world = World(tmp_path, counts=((6,), (6,)))

    def padded(step: Step, number: int) -> None:
        coupled(world, 0.1)(step, number)
        [(loss, weights)] = step.targets
        step.targets = [(Loss(loss.function, "mean", 12, 40, 0, LOSS, weighed=True), weights)]

    report = judge(world.train(world.mean_of_own).refer(world.one_process, change=padded).evidence())
    assert (report.verdict, report.objective.explanation, codes(report)) == ("inconclusive", "other-padding", [])


def test_other_targets_are_not_decided(tmp_path: Path) -> None:
    """The script masks by rank, which one process has no second of."""
    world = World(tmp_path, counts=((6,), (2,)))

    def unmasked(step: Step, number: int) -> None:
        coupled(world)(step, number)
        step.targets = [(Loss("cross_entropy", "mean", 12, 12, 0, LOSS, weighed=True), np.full(12, 1 / 12))]

    report = judge(world.train(world.mean_of_own).refer(world.one_process, change=unmasked).evidence())
    assert (report.verdict, report.objective.explanation, codes(report)) == ("inconclusive", "other-targets", [])


@pytest.mark.parametrize("strict", [False, True])
def test_batchnorm_alone_is_a_note(tmp_path: Path, strict: bool) -> None:
    world = World(tmp_path, counts=((6,), (6,)))
    norm = Place(SCRIPT, 9)

    def normed(step: Step, *_: int) -> None:
        step.changes = {"batch_norm": norm}

    world.train(world.mean_of_own, change=normed).refer(world.one_process, change=coupled(world))
    report = judge(world.refer(world.one_process, "frozen-statistics").evidence(strict=strict))
    assert report.verdict == ("different" if strict else "equivalent")
    assert [(finding.code, finding.line, finding.severity) for finding in report.findings] == [("DP107", 9, "note")]
    assert report.objective.explanation == "batch-norm"
    if not strict:
        assert "but for BatchNorm's statistics" in report.reason


def test_a_per_rank_mean_behind_batchnorm_is_found(tmp_path: Path) -> None:
    world = World(tmp_path)

    def normed(step: Step, *_: int) -> None:
        step.changes = {"batch_norm": Place(SCRIPT, 9)}

    world.train(world.mean_of_own, change=normed).refer(world.one_process, change=coupled(world))
    report = judge(world.refer(world.one_process, "frozen-statistics").evidence())
    assert (report.verdict, codes(report)) == ("different", ["DP301"])


# -- accumulation


UNEVEN = ((5, 2), (4, 3))


def test_micro_batches_of_equal_counts(tmp_path: Path) -> None:
    world = World(tmp_path, counts=((4, 4), (4, 4)))
    world.train(world.mean_of_own).refer(world.one_process).refer(lambda micro: 1 / 16, "window")
    report = judge(world.evidence())
    assert (report.verdict, codes(report), report.global_batch.accumulation) == ("equivalent", [], 2)


def test_micro_batches_too_many_to_be_kept(tmp_path: Path) -> None:
    world = World(tmp_path, counts=((6, 6), (2, 2)))

    def unkept(step: Step, *_: int) -> None:
        step.micro = ()

    report = judge(world.train(world.mean_of_own, change=unkept).refer(world.one_process).evidence())
    assert (codes(report), report.objective.fitted) == (["DP301"], pytest.approx([0.75, 0.25]))


def test_uneven_batches_are_said_to_be_ours(tmp_path: Path) -> None:
    world = World(tmp_path)
    report = judge(world.train(world.mean_of_own).refer(world.one_process).evidence(uneven=True))
    assert (report.verdict, [note.kind for note in report.notes]) == ("different", ["uneven"])


def test_a_mean_of_micro_batch_means(tmp_path: Path) -> None:
    """Right over the ranks, wrong over time: every micro-batch is a mean over all ranks' targets."""
    world = World(tmp_path, counts=UNEVEN)
    world.train(world.global_mean).refer(world.one_process).refer(lambda micro: 1 / 14, "window")
    report = judge(world.evidence())
    assert (report.verdict, codes(report), report.objective.explanation) == (
        "different",
        ["DP305"],
        "mean-of-micro-batch-means",
    )
    assert "targets by micro-batch in step 0: 9, 5" in report.findings[0].evidence


def test_means_of_ranks_and_of_micro_batches(tmp_path: Path) -> None:
    world = World(tmp_path, counts=((5, 2), (4, 1)))
    world.train(world.mean_of_own).refer(world.one_process).refer(lambda micro: 1 / 12, "window")
    report = judge(world.evidence())
    assert (report.verdict, codes(report)) == ("different", ["DP301", "DP305"])
    assert report.objective.explanation == "per-rank-mean"
    assert any("9, 3" in said for said in report.findings[1].evidence)


def test_a_window_divided_by_its_own_count_is_right(tmp_path: Path) -> None:
    world = World(tmp_path, counts=((5, 2), (4, 1)))
    whole = lambda micro: 1 / 12  # noqa: E731
    world.train(world.window_mean, reduction="sum").refer(whole).refer(whole, "window")
    assert judge(world.evidence()).verdict == "equivalent"


def test_uncounted_micro_batches_are_told_by_the_fit(tmp_path: Path) -> None:
    world = World(tmp_path, counts=((5, 2), (4, 1)))

    def uncounted(step: Step, *_: int) -> None:
        step.targets = ()

    world.train(world.global_mean, change=uncounted).refer(world.one_process, change=uncounted)
    report = judge(world.refer(lambda micro: 1 / 12, "window", change=uncounted).evidence())
    assert codes(report) == ["DP305"]


def test_a_batch_coupled_window_is_no_mean_of_means(tmp_path: Path) -> None:
    world = World(tmp_path, counts=((4, 4), (4, 4)))

    def uncounted(step: Step, *_: int) -> None:
        step.targets = ()

    def window(step: Step, number: int) -> None:
        uncounted(step)
        coupled(world)(step, number)

    world.train(world.mean_of_own, change=uncounted).refer(world.one_process, change=uncounted)
    report = judge(world.refer(lambda micro: 1 / 16, "window", change=window).evidence())
    assert (report.verdict, codes(report)) == ("equivalent", [])


def test_the_short_last_batch_of_a_pass_is_no_finding(tmp_path: Path) -> None:
    world = World(tmp_path, counts=((4, 2), (4, 2)))
    taken = PerRank(
        [
            Fetch(0, 0, ordinal, ordinal // 2, None, [f"{rank}-{ordinal}-{n}" for n in range(size)], STEP)
            for ordinal, size in enumerate((4, 2, 4, 2))
        ]
        for rank in range(2)
    )

    def consumed(step: Step, rank: int, number: int) -> None:
        step.changes = {"fetches": [2 * number, 2 * number + 1]}

    world.train(world.mean_of_own, change=consumed, fetches=taken, loaders=[loader()]).refer(world.one_process)
    report = judge(world.refer(lambda micro: 1 / 12, "window").evidence())
    assert (report.verdict, codes(report)) == ("equivalent", [])


def test_a_reference_that_takes_the_ranks_micro_batches_one_by_one(tmp_path: Path) -> None:
    world = World(tmp_path, counts=((4, 4), (4, 4)))

    def one_by_one(step: Step, number: int) -> None:
        step.backwards = step.forwards = 4

    world.train(world.mean_of_own).refer(world.one_process, "sequence", change=one_by_one)
    assert judge(world.evidence(main="sequence")).verdict == "equivalent"
    world.refer(world.one_process, "union", change=one_by_one)
    report = judge(world.evidence(main="union"))
    assert (report.verdict, report.reason) == (
        "inconclusive",
        "in step 0 the one process made 4 backwards where the ranks made 2 each",
    )


# -- clipping


def clip(tensors: Tensors, to: float = 0.5) -> Tensors:
    return scaled(tensors, to / float(np.linalg.norm(_flat(tensors))))


def clipped(step: Step, *_: int) -> None:
    step.unclipped, step.gradient = step.gradient, clip(step.gradient)
    step.changes = {"clipped": CLIP}


def test_a_clip_after_the_reduction_is_right(tmp_path: Path) -> None:
    world = World(tmp_path)
    report = judge(world.train(world.global_mean, change=clipped).refer(world.one_process, change=clipped).evidence())
    assert (report.verdict, codes(report), report.sync.exact) == ("equivalent", [], True)


def test_a_clip_does_not_hide_a_factor(tmp_path: Path) -> None:
    world = World(tmp_path)
    report = judge(
        world.train(lambda r, i: 2 * world.global_mean(r, i), change=clipped)
        .refer(world.one_process, change=clipped)
        .evidence()
    )
    assert codes(report) == ["DP304"]


def test_a_clip_before_the_reduction(tmp_path: Path) -> None:
    world = World(tmp_path)

    def early(step: Step, rank: int, number: int) -> None:
        own = [world.local_parts(number, each, world.global_mean)[0] for each in range(2)]
        step.unclipped, step.gradient = own[rank], mean([clip(each) for each in own])
        step.changes = {"clipped": CLIP}

    report = judge(world.train(world.global_mean, change=early).refer(world.one_process, change=clipped).evidence())
    assert report.verdict == "different"
    assert [(finding.code, finding.line) for finding in report.findings] == [("DP403", CLIP.line)]


def test_shards_clipped_by_their_own_norm(tmp_path: Path) -> None:
    world = World(tmp_path)

    def by_shard(step: Step, rank: int, number: int) -> None:
        bounds = (rank / 2, (rank + 1) / 2)
        own = {
            name: value.reshape(-1)[round(bounds[0] * value.size) : round(bounds[1] * value.size)]
            for name, value in step.gradient.items()
        }
        factor = 0.5 / float(np.linalg.norm(_flat(own)))
        step.unclipped, step.gradient = step.gradient, scaled(step.gradient, factor)
        step.local, step.range, step.changes = None, bounds, {"clipped": CLIP}

    report = judge(world.train(world.global_mean, change=by_shard).refer(world.one_process, change=clipped).evidence())
    assert report.verdict == "different"
    assert [(finding.code, finding.line) for finding in report.findings] == [("DP403", CLIP.line)]


def test_shards_clipped_by_the_norm_over_all_are_right(tmp_path: Path) -> None:
    world = World(tmp_path)

    def sharded(step: Step, rank: int, number: int) -> None:
        clipped(step)
        step.local, step.range = None, (rank / 2, (rank + 1) / 2)

    report = judge(world.train(world.global_mean, change=sharded).refer(world.one_process, change=clipped).evidence())
    assert (report.verdict, codes(report)) == ("equivalent", [])
