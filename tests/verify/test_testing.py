"""`dpcheck.testing`: a loss is tried on ranks inside a test suite."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

from dpcheck.testing import assert_equivalent

BATCHES = [
    {"x": torch.randn(3, 4, generator=torch.Generator().manual_seed(1)), "y": torch.tensor([0, 1, 2])},
    {"x": torch.randn(1, 4, generator=torch.Generator().manual_seed(2)), "y": torch.tensor([1])},
]


def build_model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))


def per_rank_mean(model: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    return F.cross_entropy(model(batch["x"]), batch["y"])


def global_mean(model: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    targets = torch.tensor(float(len(batch["y"])))
    dist.all_reduce(targets)
    return F.cross_entropy(model(batch["x"]), batch["y"], reduction="sum") * dist.get_world_size() / targets


def forgotten_world_size(model: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    return global_mean(model, batch) / dist.get_world_size()


def test_a_mean_over_all_ranks_targets_passes() -> None:
    assert_equivalent(build_model, global_mean, BATCHES)


def test_a_mean_over_equal_numbers_of_targets_passes() -> None:
    assert_equivalent(build_model, per_rank_mean, [BATCHES[0], BATCHES[0]])


def test_a_per_rank_mean_is_named_with_the_weights_that_were_meant() -> None:
    with pytest.raises(
        AssertionError, match=r"plain mean of the ranks' gradients.* by 0\.75, 0\.25: each rank averages"
    ):
        assert_equivalent(build_model, per_rank_mean, BATCHES)


def test_a_forgotten_factor_is_told_from_a_wrong_weight() -> None:
    with pytest.raises(AssertionError, match=r"it is 0\.5 times the expected one, with 2 ranks"):
        assert_equivalent(build_model, forgotten_world_size, BATCHES)


def test_three_ranks() -> None:
    assert_equivalent(build_model, global_mean, [*BATCHES, BATCHES[1]])


def test_batches_of_unequal_shapes_need_a_union() -> None:
    def loss(model: nn.Module, batch: list[torch.Tensor]) -> torch.Tensor:
        rows = torch.tensor(float(len(batch)))
        dist.all_reduce(rows)
        return sum((model(row).square().sum() for row in batch), torch.zeros(())) * dist.get_world_size() / rows

    batches = [[torch.ones(2, 4), torch.ones(1, 4)], [torch.full((3, 4), 2.0)]]
    with pytest.raises(ValueError, match="union="):
        assert_equivalent(build_model, loss, [[torch.ones(2, 4)], [torch.ones(2, 3)]])
    assert_equivalent(build_model, loss, batches, union=lambda parts: [row for part in parts for row in part])


def test_the_losss_own_error_comes_with_its_traceback() -> None:
    def broken(model: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        return model(batch["z"]).sum()

    with pytest.raises(RuntimeError, match="KeyError: 'z'"):
        assert_equivalent(build_model, broken, BATCHES)


def test_a_collective_that_one_rank_does_not_reach_ends_in_time() -> None:
    def stuck(model: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        if dist.get_world_size() > 1 and dist.get_rank() == 0:
            time.sleep(1000)
        return global_mean(model, batch)

    before = children()
    started = time.monotonic()
    with pytest.raises(TimeoutError, match="no answer from rank 0, 1"):
        assert_equivalent(build_model, stuck, BATCHES, timeout=5)
    assert time.monotonic() - started < 60
    assert children() == before


def children() -> set[str]:
    """The processes that this one has started and that still live."""
    return {number for task in Path("/proc/self/task").iterdir() for number in (task / "children").read_text().split()}


def test_zero_gradients_prove_nothing() -> None:
    with pytest.raises(AssertionError, match="all gradients are zero"):
        assert_equivalent(build_model, lambda model, batch: model(batch["x"]).sum() * 0, BATCHES)


def test_one_batch_is_not_enough() -> None:
    with pytest.raises(ValueError, match="at least two batches"):
        assert_equivalent(build_model, global_mean, BATCHES[:1])


def test_the_fixture_is_the_function(request: pytest.FixtureRequest) -> None:
    fixture: Callable[..., Any] = request.getfixturevalue("assert_equivalent")
    fixture(build_model, global_mean, BATCHES)


def test_the_documented_example_fails_as_it_says(assert_equivalent: Callable[..., None]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "verify.md").read_text("utf-8")
    example = page.split("```python\n")[1].split("```")[0]
    names: dict[str, Any] = {}
    exec(example, names)
    with pytest.raises(AssertionError, match=r"it is the plain mean of the ranks' gradients.* by 0\.7143, 0\.2857"):
        names["test_all_targets_weigh_alike"](assert_equivalent)
