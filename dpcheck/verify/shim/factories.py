"""The functions of torch that make a tensor from a device and a dtype."""

from __future__ import annotations

from collections.abc import Iterator

import torch

Factories = list[tuple[object, str]]

_LIKE = ("empty_like", "full_like", "ones_like", "rand_like", "randint_like", "randn_like", "zeros_like")
_OTHER = (
    "asarray",
    "as_tensor",
    "empty_permuted",
    "frombuffer",
    "from_file",
    "normal",
    "range",
    "scalar_tensor",
    "tensor",
)
NEW = ("new_empty", "new_empty_strided", "new_full", "new_ones", "new_tensor", "new_zeros")
RANDOM = ("rand", "randn", "randint", "randperm", "normal")
"""Those that take a generator."""


def factories() -> Factories:
    """Owner and name of each. To be called before any is replaced: torch's own are told by their identity."""
    return list(_all())


def _all() -> Iterator[tuple[object, str]]:
    # torch keeps the set for its default device, in a cache that must be filled with the originals.
    from torch.utils._device import _device_constructors

    constructors = _device_constructors()
    for owner in (torch, torch.fft, torch.nested):
        for name in dir(owner):
            value = getattr(owner, name, None)
            if callable(value) and _is_among(value, constructors):
                yield owner, name
    for name in (*_LIKE, *_OTHER):
        if not _is_among(getattr(torch, name, None), constructors):
            yield torch, name
    for name in NEW:
        yield torch.Tensor, name


def _is_among(value: object, constructors: set[object]) -> bool:
    try:
        return value in constructors
    except TypeError:  # not hashable
        return False
