"""The state of the generators that training scripts draw from: torch's, random's, and numpy's if it is imported."""

from __future__ import annotations

import random
import sys
from typing import Any

import torch


def seed_everything(seed: int) -> None:
    torch.manual_seed(seed)
    random.seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % 2**32)


def random_state() -> tuple[Any, ...]:
    numpy = sys.modules.get("numpy")
    return torch.get_rng_state(), random.getstate(), numpy.random.get_state() if numpy is not None else None


def set_random_state(state: tuple[Any, ...]) -> None:
    torch.set_rng_state(state[0])
    random.setstate(state[1])
    if state[2] is not None:
        sys.modules["numpy"].random.set_state(state[2])


def same_random_state(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    same = torch.equal(one[0], other[0]) and one[1] == other[1]
    if one[2] is None or other[2] is None:
        return same
    return same and one[2][2] == other[2][2] and bool((one[2][1] == other[2][1]).all())
