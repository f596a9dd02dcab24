"""Putting the ranks' batches together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional

from dpcheck.verify import content


def concatenated(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """The ranks' tensors one after the other along the first dimension, inner ones padded with zeros on the right.

    A tensor without dimensions has no rows: the first rank's is taken.
    """
    first = tensors[0]
    if first.dim() == 0:
        return first
    inner = [max(tensor.shape[dim] for tensor in tensors) for dim in range(1, first.dim())]
    padded = []
    for tensor in tensors:
        padding: list[int] = []
        for dim in reversed(range(1, first.dim())):
            padding += [0, inner[dim - 1] - tensor.shape[dim]]
        padded.append(functional.pad(tensor, padding) if any(padding) else tensor)
    return torch.cat(padded)


def joined(batches: Sequence[Any]) -> Any:
    """Batches that came collated: their tensors concatenated; everything else is the first rank's."""
    if len(batches) == 1:
        return batches[0]
    columns = zip(*(content.leaves(batch) for batch in batches), strict=True)
    return content.replaced(batches[0], [concatenated(column) for column in columns])


def overlaid(union: Any, batches: Sequence[Any]) -> Any:
    """The union collated anew, with every rank's own collated values put over it.

    A collate function that draws at random gives other values each time; of the new ones only what pads the union
    further than a rank's own batch remains. Padding stands on the side on which more of the values already agree.
    """
    target = content.leaves(union)
    columns = list(zip(*(content.leaves(batch) for batch in batches), strict=True))
    if len(columns) != len(target):
        return union
    agreement = [0, 0]
    for tensor, parts in zip(target, columns, strict=True):
        if tensor.dim() >= 2 and _fits(tensor, parts):
            for left in (0, 1):
                agreement[left] += int((_put(tensor, parts, left=bool(left)) == tensor).sum())
    left = agreement[1] > agreement[0]
    return content.replaced(
        union,
        [
            _put(tensor, parts, left=left) if _fits(tensor, parts) else tensor
            for tensor, parts in zip(target, columns, strict=True)
        ],
    )


def _fits(tensor: torch.Tensor, parts: Sequence[torch.Tensor]) -> bool:
    return (
        tensor.dim() > 0
        and all(part.dim() == tensor.dim() for part in parts)
        and sum(part.shape[0] for part in parts) == tensor.shape[0]
        and all(size <= whole for part in parts for size, whole in zip(part.shape[1:], tensor.shape[1:], strict=True))
    )


def _put(tensor: torch.Tensor, parts: Sequence[torch.Tensor], *, left: bool) -> torch.Tensor:
    result = tensor.clone()
    row = 0
    for part in parts:
        inner = [
            slice(whole - size, None) if left else slice(0, size)
            for size, whole in zip(part.shape[1:], tensor.shape[1:], strict=True)
        ]
        result[(slice(row, row + part.shape[0]), *inner)] = part.to(result.dtype)
        row += part.shape[0]
    return result
