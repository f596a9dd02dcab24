"""Counterfactuals: the change that would mend a defect, made in memory, so that a second run can show the error fall.

Where the objective is mended, the ranks are given the batches and weights of the first run again (see feed/), so
that the same reference judges both.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import distributed
from torch.utils.data import DataLoader, IterableDataset

from dpcheck.verify.feed.reference import ReferenceFeed
from dpcheck.verify.hooks.modules import Models
from dpcheck.verify.job import Mend
from dpcheck.verify.recording import Window
from dpcheck.verify.session import Session


def install(session: Session, models: Models, feed: ReferenceFeed | None) -> None:
    """Make the job's change, if it has one."""
    mends: dict[Mend, Callable[[], None]] = {
        "global-count": lambda: _count_globally(session, feed),
        "times-world-size": lambda: _scale(session, lambda: session.job.world_size),
        "by-world-size": lambda: _scale(session, lambda: 1 / session.job.world_size),
        "average-gradients": lambda: _average(session),
        "broadcast-weights": lambda: _broadcast(session, models),
        "shard-data": lambda: _shard(session),
    }
    if session.job.mend is not None:
        mends[session.job.mend]()


def _count_globally(session: Session, feed: ReferenceFeed | None) -> None:
    """A mean over this rank's targets becomes its part of the mean over the targets of all ranks and micro-batches.

    The script divides by the number of micro-batches and the wrapper by that of the ranks, so the backward of a mean
    over n of N targets, in c backwards altogether, is multiplied by n · c / N.
    """

    def factor() -> float:
        window = session.window
        ranks = range(session.job.world_size)
        counts = [_counts(feed.window_of_rank(rank, window.index)) for rank in ranks] if feed is not None else []
        own = counts[session.job.rank] if counts else {}
        total = sum(targets for each in counts for targets in each.values())
        if window.backwards not in own or not total:
            return 1.0
        return own[window.backwards] * sum(map(len, counts)) / total

    _scale(session, factor)


def _counts(window: Window | None) -> dict[int, int]:
    """The targets of each backward: those of its first loss, which the others are taken to share."""
    counts: dict[int, int] = {}
    for loss in window.losses if window is not None else []:
        counts.setdefault(loss.micro, loss.targets)
    return counts


def _scale(session: Session, factor: Callable[[], float]) -> None:
    """Multiply what each outermost backward begins with."""
    tensor: Any = torch.Tensor
    original = tensor.backward

    @functools.wraps(original)
    def backward(self: torch.Tensor, gradient: Any = None, *args: Any, **kwargs: Any) -> Any:
        if session.inside or gradient is not None or self.numel() != 1:
            return original(self, gradient, *args, **kwargs)
        return original(self, torch.full_like(self, factor()), *args, **kwargs)

    tensor.backward = backward


def _average(session: Session) -> None:
    """Average at the step what the ranks hold differently; the mean of equal gradients is themselves."""

    def average(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        if session.inside or not distributed.is_initialized():
            return
        with session.looking_away(), torch.no_grad():
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    gradient = parameter.grad if parameter.grad is not None else torch.zeros_like(parameter)
                    distributed.all_reduce(gradient)
                    gradient /= session.job.world_size
                    parameter.grad = gradient

    torch.optim.optimizer.register_optimizer_step_pre_hook(average)


def _broadcast(session: Session, models: Models) -> None:
    """Give all ranks the weights and buffers of rank 0 before the first forward."""
    done = False
    module: Any = torch.nn.Module
    original = module.__call__

    @functools.wraps(original)
    def call(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        nonlocal done
        if not done and not session.inside and distributed.is_initialized():
            done = True
            with session.looking_away(), torch.no_grad():
                for piece in models.pieces():
                    distributed.broadcast(piece.holder.data, 0)
                for buffer in models.buffers().values():
                    distributed.broadcast(buffer, 0)
        return original(self, *args, **kwargs)

    module.__call__ = call


def _shard(session: Session) -> None:
    """Give every loader over a map-style data set a DistributedSampler."""
    loader: Any = DataLoader
    original = loader.__init__

    @functools.wraps(original)
    def initialize(self: Any, dataset: Any, *args: Any, **kwargs: Any) -> None:
        sampled = kwargs.get("sampler") or kwargs.get("batch_sampler") or len(args) > 2
        if not sampled and not isinstance(dataset, IterableDataset) and distributed.is_initialized():
            from torch.utils.data import DistributedSampler

            shuffle = kwargs.pop("shuffle", None) or (len(args) > 1 and bool(args[1]))
            kwargs["sampler"] = DistributedSampler(dataset, shuffle=bool(shuffle))
            args = args[:1]
        original(self, dataset, *args, **kwargs)

    loader.__init__ = initialize
