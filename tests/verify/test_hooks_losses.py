"""What each target weighs in the update, against the unreduced losses and on two gloo ranks."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpcheck.verify.job import Job
from dpcheck.verify.places import Places
from dpcheck.verify.session import Session
from tests.verify.hooked import Hooked, hooked

torch = pytest.importorskip("torch")
losses = pytest.importorskip("dpcheck.verify.hooks.losses")
F = torch.nn.functional

__all__ = ["hooked"]

TOLERANCE = 1e-14
DRAWS = torch.Generator().manual_seed(0)


def numbers(*shape: int) -> Any:
    return torch.randn(*shape, generator=DRAWS, dtype=torch.float64)


def chances(*shape: int) -> Any:
    return torch.rand(*shape, generator=DRAWS, dtype=torch.float64) * 0.8 + 0.1


def signs(*shape: int) -> Any:
    return torch.randint(0, 2, shape, generator=DRAWS).double() * 2 - 1


def classes(*shape: int, ignored: int | None = None) -> Any:
    drawn = torch.randint(0, 5, shape, generator=DRAWS)
    if ignored is not None and drawn.numel() > 1:
        drawn.view(-1)[1::3] = ignored
    return drawn


def labels(*shape: int) -> Any:
    return torch.randint(1, 5, shape, generator=DRAWS)


def normalized(*shape: int) -> Any:
    return numbers(*shape).log_softmax(1)


SAMPLES = numbers(6, 5), numbers(6, 5)
WEIGHTS = chances(5)

CASES: dict[str, tuple[str, tuple[Any, ...], dict[str, Any]]] = {
    "cross_entropy": ("cross_entropy", (numbers(6, 5), classes(6)), {}),
    "cross_entropy ignored": ("cross_entropy", (numbers(6, 5), classes(6, ignored=-100)), {}),
    "cross_entropy other index": ("cross_entropy", (numbers(6, 5), classes(6, ignored=3)), {"ignore_index": 3}),
    "cross_entropy weighted": ("cross_entropy", (numbers(6, 5), classes(6)), {"weight": WEIGHTS}),
    "cross_entropy weighted, ignored": (
        "cross_entropy",
        (numbers(6, 5), classes(6, ignored=-1)),
        {"weight": WEIGHTS, "ignore_index": -1},
    ),
    "cross_entropy smoothed": ("cross_entropy", (numbers(6, 5), classes(6)), {"label_smoothing": 0.1}),
    "cross_entropy smoothed, ignored": (
        "cross_entropy",
        (numbers(6, 5), classes(6, ignored=-100)),
        {"label_smoothing": 0.1},
    ),
    "cross_entropy smoothed, weighted, ignored": (
        "cross_entropy",
        (numbers(6, 5), classes(6, ignored=-100)),
        {"label_smoothing": 0.2, "weight": WEIGHTS},
    ),
    "cross_entropy of pixels": ("cross_entropy", (numbers(2, 5, 3, 4), classes(2, 3, 4, ignored=-100)), {}),
    "cross_entropy of one": ("cross_entropy", (numbers(5), torch.tensor(2)), {"weight": WEIGHTS}),
    "cross_entropy of chances": ("cross_entropy", (numbers(6, 5), chances(6, 5)), {}),
    "cross_entropy of chances, weighted": (
        "cross_entropy",
        (numbers(6, 5, 2), chances(6, 5, 2)),
        {"weight": WEIGHTS, "label_smoothing": 0.1},
    ),
    "cross_entropy of chances of one": ("cross_entropy", (numbers(5), chances(5)), {}),
    "linear_cross_entropy": (
        "linear_cross_entropy",
        (numbers(6, 3), numbers(5, 3), classes(6, ignored=-100)),
        {"weight": WEIGHTS, "label_smoothing": 0.1},
    ),
    "nll_loss": ("nll_loss", (normalized(6, 5), classes(6, ignored=2)), {"ignore_index": 2, "weight": WEIGHTS}),
    "nll_loss of pixels": ("nll_loss", (normalized(2, 5, 3, 3), classes(2, 3, 3, ignored=-100)), {"weight": WEIGHTS}),
    "mse_loss": ("mse_loss", SAMPLES, {}),
    "mse_loss broadcast": ("mse_loss", (numbers(6, 5), numbers(5)), {}),
    "mse_loss weighted": ("mse_loss", SAMPLES, {"weight": chances(6, 5)}),
    "l1_loss": ("l1_loss", SAMPLES, {}),
    "l1_loss weighted": ("l1_loss", SAMPLES, {"weight": chances(6, 5)}),
    "smooth_l1_loss": ("smooth_l1_loss", SAMPLES, {"beta": 0.5}),
    "huber_loss": ("huber_loss", SAMPLES, {"delta": 0.5}),
    "huber_loss weighted": ("huber_loss", SAMPLES, {"weight": chances(6, 5)}),
    "binary_cross_entropy": ("binary_cross_entropy", (chances(6, 5), chances(6, 5)), {"weight": chances(6, 5)}),
    "binary_cross_entropy_with_logits": (
        "binary_cross_entropy_with_logits",
        (numbers(6, 5), chances(6, 5)),
        {"weight": chances(5), "pos_weight": chances(5)},
    ),
    "kl_div": ("kl_div", (normalized(6, 5), chances(6, 5)), {}),
    "kl_div of logarithms": ("kl_div", (normalized(6, 5, 2), normalized(6, 5, 2)), {"log_target": True}),
    "poisson_nll_loss": ("poisson_nll_loss", (numbers(6, 5), chances(6, 5)), {"full": True}),
    "gaussian_nll_loss": ("gaussian_nll_loss", (numbers(6, 5), numbers(6, 5), chances(6, 1)), {"full": True}),
    "hinge_embedding_loss": ("hinge_embedding_loss", (numbers(6, 5), signs(6, 5)), {}),
    "soft_margin_loss": ("soft_margin_loss", (numbers(6, 5), signs(6, 5)), {}),
    "margin_ranking_loss": ("margin_ranking_loss", (numbers(6), numbers(6), signs(6)), {"margin": 0.3}),
    "cosine_embedding_loss": ("cosine_embedding_loss", (numbers(6, 5), numbers(6, 5), signs(6)), {"margin": 0.1}),
    "cosine_embedding_loss of one": ("cosine_embedding_loss", (numbers(5), numbers(5), torch.tensor(1)), {}),
    "multi_margin_loss": ("multi_margin_loss", (numbers(6, 5), classes(6)), {"weight": WEIGHTS}),
    "multi_margin_loss of one": ("multi_margin_loss", (numbers(5), torch.tensor(1)), {"p": 2}),
    "multilabel_margin_loss": (
        "multilabel_margin_loss",
        (numbers(6, 5), torch.tensor([[3, 0, -1, 1, 4]]).expand(6, 5).contiguous()),
        {},
    ),
    "multilabel_margin_loss of one": ("multilabel_margin_loss", (numbers(5), torch.tensor([3, 0, -1, 1, 4])), {}),
    "multilabel_soft_margin_loss": (
        "multilabel_soft_margin_loss",
        (numbers(6, 5), (signs(6, 5) + 1) / 2),
        {"weight": WEIGHTS},
    ),
    "triplet_margin_loss": ("triplet_margin_loss", (numbers(6, 5), numbers(6, 5), numbers(6, 5)), {"swap": True}),
    "triplet_margin_with_distance_loss": (
        "triplet_margin_with_distance_loss",
        (numbers(6, 5), numbers(6, 5), numbers(6, 5)),
        {},
    ),
    "ctc_loss": (
        "ctc_loss",
        (numbers(12, 3, 5).log_softmax(2), labels(3, 4), torch.tensor([12, 11, 9]), torch.tensor([4, 2, 0])),
        {},
    ),
    "ctc_loss of one": (
        "ctc_loss",
        (numbers(12, 5).log_softmax(1), labels(4), torch.tensor(12), torch.tensor(4)),
        {},
    ),
    "ctc_loss of tuples": (
        "ctc_loss",
        (numbers(12, 2, 5).log_softmax(2), labels(2, 4), (12, 12), (4, 1)),
        {},
    ),
}

REDUCTIONS = ["mean", "sum", "none"]
ALL = [(title, how) for title in CASES for how in REDUCTIONS] + [
    (title, "batchmean") for title, case in CASES.items() if case[0] == "kl_div"
]


@pytest.fixture
def session(tmp_path: Path) -> Session:
    job = Job("rank", 0, 1, str(tmp_path), str(tmp_path), "train.py", False, [], str(tmp_path), 0)
    return Session(job, Places(tmp_path / "train.py"))


def test_every_loss_of_torch_has_a_case() -> None:
    defined = {
        name
        for name in dir(F)
        if (name.endswith(("_loss", "_cross_entropy")) or name in ("cross_entropy", "kl_div", "binary_cross_entropy"))
        and not name.startswith("_")
        and callable(getattr(F, name))
    } - {"binary_cross_entropy_with_logits_loss"}
    defined |= {"binary_cross_entropy_with_logits"}
    assert set(losses.FUNCTIONS) == defined == {case[0] for case in CASES.values()}


@pytest.mark.filterwarnings("ignore:Using a target size", "ignore:reduction. .mean. divides")
@pytest.mark.parametrize(("title", "how"), ALL)
def test_weights_recompose_the_loss(session: Session, title: str, how: str) -> None:
    name, args, kwargs = CASES[title]
    original = getattr(F, name)
    recorded = losses.Losses(session).recorded(name, original)
    first = args[0].clone().requires_grad_()
    again = args[0].clone().requires_grad_()
    factor = 0.37

    result = recorded(first, *args[1:], reduction=how, **kwargs)
    plain = original(again, *args[1:], reduction=how, **kwargs)
    assert torch.equal(result, plain)  # bit for bit
    own = torch.linspace(0.1, 0.9, result.numel(), dtype=torch.float64).view_as(result)
    ((result * own).sum() * factor).backward()
    ((plain * own).sum() * factor).backward()
    assert torch.equal(first.grad, again.grad)

    (loss,) = session.window.losses
    assert (loss.function, loss.reduction, loss.weighed, loss.micro) == (name, how, True, 0)
    unreduced = args[0].clone().requires_grad_()
    apart = original(unreduced, *args[1:], reduction="none", **kwargs).reshape(-1)
    assert loss.elements == apart.numel()
    target = args[2] if name == "linear_cross_entropy" else args[1]
    if name in ("cross_entropy", "nll_loss", "linear_cross_entropy") and not target.is_floating_point():
        apart = apart[(target != kwargs.get("ignore_index", -100)).reshape(-1)]
    assert loss.targets == apart.numel()
    weights = session.tensors["target/0"]
    assert weights.dtype == torch.float64
    assert weights.shape == apart.shape

    total = (result * own).sum() * factor
    recomposed = (weights * apart).sum()
    assert abs(recomposed - total) <= TOLERANCE * max(1.0, abs(float(total.detach())))
    recomposed.backward()
    scale = max(1.0, float(first.grad.abs().max()))
    assert float((unreduced.grad - first.grad).abs().max()) <= TOLERANCE * scale


@pytest.mark.parametrize(
    ("flags", "how"),
    [
        ({"size_average": False}, "sum"),
        ({"reduce": False}, "none"),
        ({"size_average": True, "reduce": True}, "mean"),
        ({}, "mean"),
    ],
)
def test_older_flags(session: Session, flags: dict[str, bool], how: str) -> None:
    recorded = losses.Losses(session).recorded("mse_loss", F.mse_loss)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        recorded(numbers(3).requires_grad_(), numbers(3), **flags)
    assert len(warned) <= 1  # torch's own
    assert session.window.losses[0].reduction == how


def weights_after(session: Session, compute: Callable[[Any, Any], None]) -> list[list[float]]:
    """The weights of the losses that `compute` records, of a model with three targets of which one is ignored."""
    cross_entropy = losses.Losses(session).recorded("cross_entropy", F.cross_entropy)
    logits = numbers(4, 5).requires_grad_()
    compute(cross_entropy, logits)
    return [session.tensors[f"target/{i}"].tolist() for i, loss in enumerate(session.window.losses) if loss.weighed]


TARGET = torch.tensor([1, -100, 2, 3])


def test_later_divisions_and_factors_count(session: Session) -> None:
    def compute(cross_entropy: Any, logits: Any) -> None:
        loss = cross_entropy(logits, TARGET, reduction="sum")
        loss /= 8  # in place: the hook still sees the sum
        (loss * 2).backward()

    assert weights_after(session, compute) == [[0.25] * 3]


def test_weights_add_up_over_the_backwards_of_one_graph(session: Session) -> None:
    def compute(cross_entropy: Any, logits: Any) -> None:
        loss = cross_entropy(logits, TARGET)
        loss.backward(retain_graph=True)
        session.window.backwards += 1
        (loss / 2).backward()

    assert weights_after(session, compute) == [[pytest.approx(0.5, rel=1e-15)] * 3]


def test_what_a_mask_removes_is_no_target(session: Session) -> None:
    def compute(cross_entropy: Any, logits: Any) -> None:
        mask = torch.tensor([1.0, 1.0, 0.0, 1.0])
        (cross_entropy(logits, TARGET, reduction="none") * mask).sum().div(mask.sum()).backward()

    assert weights_after(session, compute) == [[pytest.approx(1 / 3, rel=1e-15)] * 2]
    assert [(loss.targets, loss.elements) for loss in session.window.losses] == [(2, 4)]


def test_what_no_backward_reaches_is_not_weighed(session: Session) -> None:
    def compute(cross_entropy: Any, logits: Any) -> None:
        cross_entropy(logits, TARGET)
        with torch.no_grad():
            cross_entropy(logits, TARGET)
        cross_entropy(logits.detach(), TARGET)
        with session.looking_away():
            cross_entropy(logits, TARGET)

    assert weights_after(session, compute) == []
    assert [(loss.targets, loss.weighed) for loss in session.window.losses] == [(3, False)]


def test_a_gradient_that_is_differentiated_is_no_update(session: Session) -> None:
    def compute(cross_entropy: Any, logits: Any) -> None:
        loss = cross_entropy(logits, TARGET)
        (gradient,) = torch.autograd.grad(loss, logits, create_graph=True)
        (gradient.square().sum() + loss).backward()

    assert weights_after(session, compute) == [[pytest.approx(1 / 3, rel=1e-15)] * 3]


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_checkpointed_loss_counts_once(session: Session, reentrant: bool) -> None:
    from torch.utils.checkpoint import checkpoint

    def compute(cross_entropy: Any, logits: Any) -> None:
        loss = checkpoint(lambda scores: cross_entropy(scores * 2, TARGET), logits, use_reentrant=reentrant)
        loss.backward()

    assert weights_after(session, compute) == [[pytest.approx(1 / 3, rel=1e-15)] * 3]
    assert [loss.targets for loss in session.window.losses] == [3]


def test_a_backward_in_a_later_window_is_not_mixed_up(session: Session) -> None:
    def compute(cross_entropy: Any, logits: Any) -> None:
        loss = cross_entropy(logits, TARGET)
        session.open_next_window()
        loss.backward()

    assert weights_after(session, compute) == []
    assert session.tensors == {}


def test_many_targets_are_thinned_evenly(session: Session) -> None:
    recorded = losses.Losses(session).recorded("mse_loss", F.mse_loss)
    own = torch.arange(1, 10_001, dtype=torch.float64)
    (recorded(numbers(10_000).requires_grad_(), numbers(10_000), reduction="none") * own).sum().backward()
    recorded(numbers(10_000).requires_grad_(), numbers(10_000)).backward()
    assert torch.equal(session.tensors["target/0"], own[::3])
    assert session.tensors["target/1"].shape == (4096,)
    assert [loss.targets for loss in session.window.losses] == [10_000, 10_000]


def test_a_distance_of_any_shape_leaves_the_targets_unweighed(session: Session) -> None:
    recorded = losses.Losses(session).recorded("triplet_margin_with_distance_loss", F.triplet_margin_with_distance_loss)
    triplet = [numbers(6, 5).requires_grad_() for _ in range(3)]
    recorded(*triplet, distance_function=lambda a, b: F.mse_loss(a, b, reduction="none")).backward()
    assert [(loss.function, loss.weighed) for loss in session.window.losses] == [(recorded.__name__, False)]
    assert session.recording.notes == []


def test_class_weights_are_noted(session: Session) -> None:
    recorded = losses.Losses(session).recorded("cross_entropy", F.cross_entropy)
    recorded(numbers(4, 5).requires_grad_(), TARGET, weight=WEIGHTS)
    assert [note.kind for note in session.recording.notes] == ["class-weights"]


def test_tensors_of_torch_func_are_let_through(session: Session) -> None:
    recorded = losses.Losses(session).recorded("mse_loss", F.mse_loss)
    value = numbers(3)
    gradient = torch.func.grad(lambda x: recorded(x, torch.zeros(3, dtype=torch.float64)))(value)
    assert torch.allclose(gradient, value * 2 / 3)
    assert session.window.losses == []
    assert [note.kind for note in session.recording.notes] == ["loss-unseen"]


def test_an_error_of_torch_stays_torchs(session: Session) -> None:
    recorded = losses.Losses(session).recorded("cross_entropy", F.cross_entropy)
    with pytest.raises(ValueError, match="batch_size"):
        recorded(numbers(4, 5).requires_grad_(), torch.tensor([1, 2]))
    with pytest.raises(TypeError):
        recorded()
    assert session.window.losses == []
    assert session.recording.notes == []


CLASSIC = """
import torch, torch.distributed as dist, torch.nn as nn, torch.nn.functional as F
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = nn.parallel.DistributedDataParallel(nn.Linear(4, 5))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.randn(4, 4)
target = torch.tensor([[1, -100, 2, 3], [-100, -100, 4, -100]][rank])
count = int((target != -100).sum())
"""


def weights_of_ranks(hooked: Hooked, source: str) -> list[list[list[float]]]:
    """By rank and loss, the weights of the targets in the last window."""
    ran = hooked.run(CLASSIC + source)
    return [
        [window[-1][f"target/{i}"] for i in range(len(recording.windows[-1].losses))]
        for recording, window in zip(ran.recordings, ran.tensors, strict=True)
    ]


def test_the_classic_weighs_the_lone_target_three_times(hooked: Hooked) -> None:
    source = """
loss = nn.CrossEntropyLoss()(model(data), target)
loss.backward()
optimizer.step()
"""
    third = pytest.approx(1 / 3, rel=1e-15)
    assert weights_of_ranks(hooked, source) == [[[third] * 3], [[1.0]]]


def test_a_global_count_weighs_all_targets_the_same(hooked: Hooked) -> None:
    source = """
everyone = torch.tensor(count)
dist.all_reduce(everyone)
loss = F.cross_entropy(model(data), target, reduction="sum") * dist.get_world_size() / everyone
loss.backward()
optimizer.step()
"""
    # 2 ranks / 4 targets, which DDP's average halves
    assert weights_of_ranks(hooked, source) == [[[0.5] * 3], [[0.5]]]


def test_accumulation_divides(hooked: Hooked) -> None:
    source = """
for _ in range(2):
    for micro in range(2):
        with model.no_sync() if micro == 0 else torch.enable_grad():
            (F.cross_entropy(model(data), target) / 2).backward()
    optimizer.step()
    optimizer.zero_grad()
"""
    sixth = pytest.approx(1 / 6, rel=1e-15)
    assert weights_of_ranks(hooked, source) == [[[sixth] * 3] * 2, [[0.5]] * 2]


def test_places_are_the_users(hooked: Hooked) -> None:
    ran = hooked.run(CLASSIC + "loss = nn.CrossEntropyLoss()(model(data), target)  # here\noptimizer.step()\n")
    (loss,) = ran.recordings[0].windows[0].losses
    source = Path(loss.place.path).read_text("utf-8").splitlines()
    assert "# here" in source[loss.place.line - 1]
