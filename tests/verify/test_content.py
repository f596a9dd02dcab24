"""Digests and bytes of samples: equal content is equal, whatever holds it."""

from __future__ import annotations

import collections
import dataclasses
import pickle
from typing import NamedTuple

import numpy as np
import pytest
import torch

from dpcheck.verify import content


class Pair(NamedTuple):
    image: torch.Tensor
    label: int


@dataclasses.dataclass
class Sample:
    tokens: list[int]
    weight: float


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (torch.arange(6.0).view(2, 3)[0], torch.arange(3.0)),
        ((1, "a", torch.ones(2)), [1, "a", np.ones(2, np.float32)]),
        ({"x": torch.ones(2), "y": None}, collections.OrderedDict(x=torch.ones(2), y=None)),
        (Pair(torch.ones(1), 3), (torch.ones(1), 3)),
        (Sample([1, 2], 0.5), Sample([1, 2], 0.5)),
        (torch.ones(2, 2).t(), torch.ones(2, 2)),
    ],
)
def test_equal_content_has_equal_digests(one: object, other: object) -> None:
    assert content.digest(one) == content.digest(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (torch.ones(2), torch.ones(2, dtype=torch.float64)),
        (torch.ones(2, 1), torch.ones(1, 2)),
        ([1, 2], [2, 1]),
        ([[1], 2], [[1, 2]]),
        ("1", 1),
        (True, 1),
        (0.1 + 0.2, 0.3),
        (Sample([1, 2], 0.5), Sample([1, 2], 0.25)),
        (torch.tensor([1.0]).bfloat16(), torch.tensor([1.0]).half()),
    ],
)
def test_different_content_has_different_digests(one: object, other: object) -> None:
    assert content.digest(one) != content.digest(other)


def test_a_view_brings_only_its_own_elements_along() -> None:
    row = torch.zeros(1000, 1000)[3]
    data = content.dumps(row)
    assert len(data) < 5000
    assert torch.equal(pickle.loads(data), row)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool, torch.uint8])
def test_tensors_come_back_as_they_were(dtype: torch.dtype) -> None:
    tensor = torch.tensor([0, 1, 3]).to(dtype)
    [back] = pickle.loads(content.dumps([tensor]))
    assert back.dtype == dtype
    assert torch.equal(back, tensor)


def test_the_tensors_of_a_batch_are_found_and_replaced_in_order() -> None:
    batch = {"x": torch.zeros(2), "rest": [Pair(torch.ones(1), 3), Sample([1], 0.5)], "name": "b"}
    found = content.leaves(batch)
    assert [tensor.tolist() for tensor in found] == [[0, 0], [1]]
    replaced = content.replaced(batch, [tensor + 1 for tensor in found])
    assert replaced["x"].tolist() == [1, 1]
    assert replaced["rest"][0] == Pair(torch.tensor([2.0]), 3)
    assert replaced["name"] == "b"
    assert batch["x"].tolist() == [0, 0]
