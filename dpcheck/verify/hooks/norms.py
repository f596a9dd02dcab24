"""BatchNorm in training mode: where it took its statistics from this process's batch alone.

In a reference told so, the statistics are taken over each rank's rows apart: what remains different then does not come
from BatchNorm.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch.nn import functional

from dpcheck.verify.session import Session


def install(session: Session, rows_of_ranks: Any = None) -> None:
    """`rows_of_ranks(total)` gives how many of `total` rows each rank contributed, or None where that is unknown."""
    patched: Any = functional
    original = patched.batch_norm

    @functools.wraps(original)
    def batch_norm(
        input: torch.Tensor,
        running_mean: torch.Tensor | None,
        running_var: torch.Tensor | None,
        weight: torch.Tensor | None = None,
        bias: torch.Tensor | None = None,
        training: bool = False,
        momentum: float = 0.1,
        eps: float = 1e-5,
    ) -> Any:
        if not training or session.inside or not torch.is_grad_enabled():
            return original(input, running_mean, running_var, weight, bias, training, momentum, eps)
        if session.window.batch_norm is None:
            session.window.batch_norm = session.here()
        feed = session.job.feed
        sizes = rows_of_ranks(input.size(0)) if feed is not None and feed.frozen_statistics and rows_of_ranks else None
        if sizes is None:
            return original(input, running_mean, running_var, weight, bias, training, momentum, eps)
        parts = [
            original(part, _copied(running_mean), _copied(running_var), weight, bias, training, momentum, eps)
            for part in torch.split(input, sizes)
        ]
        return torch.cat(parts)

    patched.batch_norm = batch_norm


def _copied(statistics: torch.Tensor | None) -> torch.Tensor | None:
    return None if statistics is None else statistics.clone()
