"""FlexAttention, whose gradient torch has for GPUs alone: here with the whole matrix of scores."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import torch

from dpcheck.verify.shim.importing import AdaptingFinder
from dpcheck.verify.shim.patching import Patches


def install(patches: Patches, finder: AdaptingFinder) -> None:
    def adapt(module: ModuleType) -> None:
        patches.replace(module, "flex_attention", flex_attention)

    finder.adapt("torch.nn.attention.flex_attention", adapt)


def flex_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    score_mod: Any = None,
    block_mask: Any = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: Any = None,
    *,
    return_aux: Any = None,
) -> Any:
    if enable_gqa:
        groups = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    scores = query @ key.transpose(-2, -1) * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    # Modifications are written for single positions, and broadcast over tensors of them.
    positions = [
        torch.arange(size).view([-1 if dimension == axis else 1 for dimension in range(4)])
        for axis, size in enumerate(scores.shape)
    ]
    if score_mod is not None:
        scores = score_mod(scores, *positions)
    if block_mask is None:
        allowed = torch.ones(1, dtype=torch.bool)
    else:
        allowed = block_mask.mask_mod(*positions).expand(scores.shape)
        scores = scores.masked_fill(~allowed, torch.finfo(scores.dtype).min)
    # A row in which nothing is allowed attends to nothing.
    output = (scores.softmax(-1) * allowed.any(-1, keepdim=True)) @ value
    if not return_lse and return_aux is None:
        return output
    lse = scores.logsumexp(-1)
    if return_lse:
        return output, lse
    maxima = scores.amax(-1)
    answer = {"lse": lse, "max_scores": maxima}
    from torch.nn.attention.flex_attention import AuxOutput

    return output, AuxOutput(**{name: value for name, value in answer.items() if getattr(return_aux, name)})
