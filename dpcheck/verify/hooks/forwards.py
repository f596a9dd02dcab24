"""The outermost forwards: where a window begins to use the weights, and which batches it uses.

At the first forward of a window a rank stores its models' state and the reference takes it over, so that every step is
judged from the same weights and one wrong step does not taint the next.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn

from dpcheck.verify import content, wire
from dpcheck.verify.hooks.data import Data
from dpcheck.verify.hooks.inputs import Inputs
from dpcheck.verify.hooks.modules import Models, unwrapped
from dpcheck.verify.hooks.steps import shares_of_state
from dpcheck.verify.recording import state_file
from dpcheck.verify.session import Session

_ROWS = 4096  # rows of an input that are told apart by content
_Forward = Callable[[tuple[Any, ...], dict[str, Any]], tuple[tuple[Any, ...], dict[str, Any]]]


class Forwards:
    """Follows the calls of modules. `feed_inputs` may exchange the inputs of an outermost training forward."""

    def __init__(
        self,
        session: Session,
        models: Models,
        data: Data,
        inputs: Inputs,
        restore: Callable[[int], None] | None,
        feed: _Forward | None,
    ) -> None:
        self._session = session
        self._models = models
        self._data = data
        self._inputs = inputs
        self._restore = restore
        self._feed = feed
        self._depth = 0
        self._begun = -1  # the window whose state is settled
        self._holds_parameters: dict[int, bool] = {}

    def call(self, original: Callable[..., Any], module: nn.Module, args: Any, kwargs: Any) -> Any:
        """An outermost call; inner ones are not seen."""
        session = self._session
        self._models.saw(module)
        if next(module.parameters(), None) is None:
            result = original(module, *args, **kwargs)
            if module.training and any(tensor.requires_grad for tensor in content.leaves(result)):
                self._models.took_part(module)
            return result
        self._begin()
        # Lightning leaves its wrapper in evaluation mode, and puts only what it wraps back into training mode.
        training = torch.is_grad_enabled() and (module.training or unwrapped(module).training)
        if training:
            place = session.here()
            session.event("forward", place)
            session.window.forwards += 1
            session.window.forwarded = place
            session.window.bypassed += self._models.bypasses(module)
            if self._feed is not None:
                args, kwargs = self._feed(args, kwargs)
            with session.harmlessly(), torch.no_grad():
                self._note_inputs(args, kwargs)
            session.training_forward += 1
        else:
            session.recording.evaluations += 1
        self._depth += 1
        try:
            return original(module, *args, **kwargs)
        finally:
            self._depth -= 1
            if training:
                session.training_forward -= 1

    def _begin(self) -> None:
        window = self._session.window.index
        if self._begun == window:
            return
        self._begun = window
        with self._session.harmlessly(), torch.no_grad():
            if self._restore is not None:
                self._restore(window)
            elif self._session.is_rank and self._worth_keeping(window):
                tensors, shares = shares_of_state(self._models)
                if self._session.job.rank == 0 or self._models.sharded():
                    metadata = {"shares": wire.encode(shares).decode()}
                    save_file(tensors, state_file(self._session.folder, window), metadata)

    def _worth_keeping(self, window: int) -> bool:
        job = self._session.job
        return job.window == "last" or window < 4 * job.steps

    def _note_inputs(self, args: Any, kwargs: Any) -> None:
        session = self._session
        window = session.window
        tensors = content.leaves((args, kwargs))
        if window.forwards == 1:
            window.first_input, window.first_shape = _signature(tensors)
        if session.is_rank:
            consumed = self._data.consumed_by(tensors)
            window.fetches += [fetch for fetch in consumed if fetch not in window.fetches]
            if consumed:
                return
            self._inputs.entered(tensors)
        elif session.job.feed is not None and session.job.feed.level == "data":
            return
        if len(window.inputs) < _ROWS:
            window.inputs += _rows(tensors)


def _signature(tensors: list[torch.Tensor]) -> tuple[list[float | None], list[int]]:
    """For each row of the largest input its product with fixed numbers, which rounding changes but little."""
    largest = _largest(tensors)
    if largest is None or len(largest) > _ROWS or largest.is_complex():
        return [], []
    rows = largest.reshape(len(largest), -1).numpy().astype(np.float64)
    numbers = np.cos(np.arange(rows.shape[1], dtype=np.float64) + 1.0)
    return [float(value) for value in rows @ numbers], list(largest.shape)


def _largest(tensors: list[torch.Tensor]) -> torch.Tensor | None:
    batched = [tensor for tensor in tensors if tensor.dim() >= 1 and tensor.layout == torch.strided and len(tensor)]
    return max(batched, key=torch.Tensor.numel).detach() if batched else None


def _rows(tensors: list[torch.Tensor]) -> list[str]:
    """Digests of the rows of the largest input."""
    largest = _largest(tensors)
    if largest is None:
        return []
    return [
        hashlib.blake2b(row.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes(), digest_size=8).hexdigest()
        for row in largest[:_ROWS]
        if row.numel()
    ]


def install(
    session: Session,
    models: Models,
    data: Data,
    inputs: Inputs,
    restore: Callable[[int], None] | None,
    feed: _Forward | None,
) -> Forwards:
    forwards = Forwards(session, models, data, inputs, restore, feed)
    patched: Any = nn.Module
    original = patched.__call__

    @functools.wraps(original)
    def call(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        # A checkpoint runs its part of the forward again in the backward.
        if forwards._depth or session.inside or session.training_forward:
            return original(self, *args, **kwargs)
        return forwards.call(original, self, args, kwargs)

    patched.__call__ = call
    return forwards
