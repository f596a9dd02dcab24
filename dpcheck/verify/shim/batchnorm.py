"""SyncBatchNorm on CPU: what torch's own computes on GPUs, with the same collectives, differentiable over gloo."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional

from dpcheck.verify.shim.patching import Patches


def install(patches: Patches) -> None:
    patches.replace(nn.SyncBatchNorm, "forward", forward)


def forward(self: nn.SyncBatchNorm, input: torch.Tensor) -> torch.Tensor:
    self._check_input_dim(input)
    factor = 0.0 if self.momentum is None else self.momentum
    if self.training and self.track_running_stats:
        tracked = self.num_batches_tracked
        assert tracked is not None
        tracked.add_(1)
        if self.momentum is None:
            factor = 1.0 / tracked.item()
    uses_batch = self.training or (self.running_mean is None and self.running_var is None)
    tracks = not self.training or self.track_running_stats
    running_mean, running_var = (self.running_mean, self.running_var) if tracks else (None, None)
    group = self.process_group or (dist.group.WORLD if dist.is_initialized() else None)
    if not (uses_batch and self.training) or group is None or dist.get_world_size(group) == 1:
        return functional.batch_norm(
            input, running_mean, running_var, self.weight, self.bias, uses_batch, factor, self.eps
        )
    normalize: Callable[..., torch.Tensor] = _Normalize.apply
    return normalize(input, self.weight, self.bias, running_mean, running_var, self.eps, factor, group)


class _Normalize(torch.autograd.Function):
    """Normalizes by the statistics of all ranks' rows. The gradients of weight and bias are this rank's part."""

    @staticmethod
    def forward(
        ctx: Any,
        input: torch.Tensor,
        weight: torch.Tensor | None,
        bias: torch.Tensor | None,
        running_mean: torch.Tensor | None,
        running_var: torch.Tensor | None,
        eps: float,
        factor: float,
        group: Any,
    ) -> torch.Tensor:
        channels = input.shape[1]
        own_count = input.numel() // channels
        dims = [dim for dim in range(input.dim()) if dim != 1]
        own_mean = input.mean(dims) if own_count else input.new_zeros(channels)
        own_var = input.var(dims, unbiased=False) if own_count else input.new_zeros(channels)
        own = torch.cat([own_mean, own_var, own_mean.new_full((1,), float(own_count))])
        gathered = own.new_empty(dist.get_world_size(group) * own.numel())
        dist.all_gather_into_tensor(gathered, own, group=group)
        parts = gathered.view(-1, own.numel())
        means, variances, counts = parts[:, :channels], parts[:, channels:-1], parts[:, -1:]
        count = counts.sum()
        mean = (counts * means).sum(0) / count
        # Variance of the union from those of the parts, without the cancellation of E[x²] - E[x]².
        var = (counts * (variances + (means - mean) ** 2)).sum(0) / count
        if running_mean is not None and running_var is not None:
            running_mean.mul_(1 - factor).add_(mean, alpha=factor)
            running_var.mul_(1 - factor).add_(var * (count / (count - 1)), alpha=factor)
        scale = torch.rsqrt(var + eps)
        shape = [1, channels] + [1] * (input.dim() - 2)
        normalized = (input - mean.view(shape)) * scale.view(shape)
        ctx.save_for_backward(normalized, weight, scale, count)
        ctx.dims, ctx.shape, ctx.group, ctx.has_bias = dims, shape, group, bias is not None
        output: torch.Tensor = normalized if weight is None else normalized * weight.view(shape)
        output = output.clone() if bias is None else output + bias.view(shape)
        return output

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        (gradient,) = gradients
        normalized, weight, scale, count = ctx.saved_tensors
        own_sum = gradient.sum(ctx.dims)
        own_product = (gradient * normalized).sum(ctx.dims)
        sums = torch.cat([own_sum, own_product])
        dist.all_reduce(sums, group=ctx.group)
        mean, product = (sums / count).view(2, *ctx.shape).unbind(0)
        of_input = gradient - mean - normalized * product
        of_input = of_input * (scale if weight is None else scale * weight).view(ctx.shape)
        of_weight = None if weight is None else own_product
        of_bias = own_sum if ctx.has_bias else None
        return of_input, of_weight, of_bias, None, None, None, None, None
