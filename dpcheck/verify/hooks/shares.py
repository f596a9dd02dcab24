"""The part of a named parameter that this process holds, be it whole (DDP) or sharded (FSDP1, FSDP2).

A share is a contiguous range of the flattened parameter. FSDP1 keeps many parameters in one flat tensor and cuts that;
FSDP2 cuts each parameter along its first dimension.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from dpcheck.verify.recording import Share

THIN_ABOVE = 1 << 16  # elements: of a larger share every stride-th is stored
_DIGEST_BYTES = 12


@dataclasses.dataclass(frozen=True)
class Piece:
    """Elements [start, stop) of the flattened parameter `name`: elements [low, high) of `holder`, flattened.

    `holder` is what the optimizer knows: the parameter, a DTensor, or FSDP1's flat parameter.
    """

    name: str
    shape: tuple[int, ...]
    start: int
    stop: int
    holder: nn.Parameter
    low: int
    high: int

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        """The piece of a tensor that is laid out like the holder: its data, its gradient."""
        return local(tensor.detach()).reshape(-1)[self.low : self.high]

    def put(self, values: torch.Tensor, start: int) -> None:
        """Write `values` over the elements of the parameter from `start` on, which must lie in this piece."""
        held = local(self.holder.detach())
        flat = held.reshape(-1)  # a copy where the parameter is not contiguous
        low = self.low + start - self.start
        flat[low : low + values.numel()].copy_(values)
        if flat.data_ptr() != held.data_ptr():
            held.copy_(flat.view(held.shape))

    def share(self, flat: torch.Tensor) -> tuple[Share, torch.Tensor]:
        """How the piece `flat` is described, and the elements of it that are stored."""
        stride = max(1, math.ceil((self.stop - self.start) / THIN_ABOVE))
        norm = float(torch.linalg.vector_norm(flat)) if flat.is_floating_point() else 0.0
        share = Share(self.name, list(self.shape), self.start, self.stop, stride, digest(flat), norm)
        return share, flat[::stride].clone()


def pieces(name: str, holder: nn.Parameter) -> Iterator[Piece]:
    """The pieces of the parameter `name` that `holder` holds; FSDP1's flat parameters are taken apart elsewhere."""
    whole = getattr(holder, "full_tensor", None) is None
    if whole:
        yield Piece(name, tuple(holder.shape), 0, holder.numel(), holder, 0, holder.numel())
        return
    rows = 0
    held: Any = holder
    if any(placement.is_shard() for placement in held.placements):
        from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

        _, offset = compute_local_shape_and_global_offset(held.shape, held.device_mesh, held.placements)
        rows = offset[0] if offset else 0
    start = rows * math.prod(held.shape[1:])
    size = local(held).numel()
    yield Piece(name, tuple(held.shape), start, start + size, holder, 0, size)


def flat_pieces(prefix: str, flat: Any) -> Iterator[Piece]:
    """The pieces that FSDP1's flat parameter holds of the parameters below `prefix`.

    With `use_orig_params` the optimizer knows the original parameters, each of them a view of its own piece.
    """
    originals = flat._params or [None] * flat._num_params
    for name, shape, info, original in zip(flat._fqns, flat._shapes, flat._shard_param_infos, originals, strict=True):
        size = math.prod(shape)
        full = prefix + name
        if original is not None:
            start, stop = (info.intra_param_start_idx, info.intra_param_end_idx + 1) if info.in_shard else (0, 0)
            if original.numel() == size:
                start, stop = 0, size  # not sharded: NO_SHARD
            yield Piece(full, tuple(shape), start, stop, original, 0, stop - start)
    if flat._params:
        return
    offsets = _offsets(flat)
    sharded = flat.numel() != int(flat._unpadded_unsharded_size.numel())
    for name, shape, info, offset in zip(flat._fqns, flat._shapes, flat._shard_param_infos, offsets, strict=True):
        size = math.prod(shape)
        if not sharded:
            yield Piece(prefix + name, tuple(shape), 0, size, flat, offset, offset + size)
        elif info.in_shard:
            start, stop = info.intra_param_start_idx, info.intra_param_end_idx + 1
            low = info.offset_in_shard
            yield Piece(prefix + name, tuple(shape), start, stop, flat, low, low + stop - start)


def _offsets(flat: Any) -> list[int]:
    """Where each parameter begins in the unsharded flat parameter, padding between them included."""
    offsets, position = [], 0
    for size, padding in zip(flat._numels_with_padding, flat._is_padding_mask, strict=True):
        if not padding:
            offsets.append(position)
        position += size
    return offsets


def local(tensor: torch.Tensor) -> torch.Tensor:
    """What this process holds of the tensor, dense."""
    to_local = getattr(tensor, "to_local", None)
    held: torch.Tensor = to_local() if to_local is not None else tensor
    return held.to_dense() if held.layout != torch.strided else held


def digest(tensor: torch.Tensor) -> str:
    """Equal for two tensors of the same type exactly when they are equal bit for bit."""
    held = local(tensor.detach()).cpu().contiguous().reshape(-1)
    data = held.view(torch.uint8) if held.numel() else held.new_zeros(0, dtype=torch.uint8)
    return hashlib.blake2b(data.numpy().data, digest_size=_DIGEST_BYTES).hexdigest()
