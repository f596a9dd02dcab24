"""Updates without an optimizer: `p.data -= lr * p.grad`.

As long as the script has constructed no optimizer, the first write into a parameter that has a gradient is the step.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from dpcheck.verify.hooks.gradients import LocalGradients
from dpcheck.verify.hooks.modules import Models
from dpcheck.verify.hooks.steps import Steps
from dpcheck.verify.session import Session

_WRITING = (
    "__iadd__", "__isub__", "__imul__", "add_", "sub_", "mul_", "addcmul_", "addcdiv_", "lerp_", "copy_",
)  # fmt: skip


class HandWrittenUpdate:
    """Stands for the optimizer that the script does without."""

    def __init__(self, parameters: list[nn.Parameter]) -> None:
        self.param_groups = [{"params": parameters}]


class HandWritten:
    def __init__(self, session: Session, models: Models, gradients: LocalGradients, steps: Steps) -> None:
        self._session = session
        self._models = models
        self._gradients = gradients
        self._steps = steps
        self._optimizer: HandWrittenUpdate | None = None
        self.watching = True  # no optimizer was constructed so far
        self._addresses: set[int] = set()
        session.at_window_start.append(self._addresses.clear)

    def _parameters(self) -> Iterator[nn.Parameter]:
        for root in self._models.roots():
            yield from (parameter for parameter in root.parameters() if parameter.requires_grad)

    def before_backward(self) -> None:
        with self._session.harmlessly():
            self._addresses.clear()
            self._gradients.watch(self._parameters())

    def before_write(self, tensor: torch.Tensor) -> None:
        """Close the window where `tensor` is a parameter, or its data."""
        with self._session.harmlessly():
            parameters = [parameter for parameter in self._parameters() if parameter.grad is not None]
            if not self._addresses:
                self._addresses.update(parameter.data_ptr() for parameter in parameters)
            if tensor.data_ptr() not in self._addresses:
                return
            if self._optimizer is None:
                self._optimizer = HandWrittenUpdate(list(self._parameters()))
        if self._optimizer is not None:
            self._steps.close(self._optimizer)
            self._steps.begin_next()

    def waits(self) -> bool:
        return self.watching and not self._session.inside and self._session.window.backwards > 0


def install(session: Session, models: Models, gradients: LocalGradients, steps: Steps) -> None:
    updates = HandWritten(session, models, gradients, steps)
    optimizer: Any = torch.optim.Optimizer
    construct = optimizer.__init__

    @functools.wraps(construct)
    def initialize(self: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> None:
        updates.watching = False
        construct(self, *args, **kwargs)

    optimizer.__init__ = initialize
    tensor: Any = torch.Tensor
    for name in _WRITING:
        setattr(tensor, name, _noticing(updates, getattr(tensor, name)))
    tensor.backward = _watching(session, updates, tensor.backward)
    torch.autograd.backward = _watching(session, updates, torch.autograd.backward)


def _noticing(updates: HandWritten, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def write(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if updates.watching and updates.waits():
            updates.before_write(self)
        return original(self, *args, **kwargs)

    return write


def _watching(session: Session, updates: HandWritten, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def backward(*args: Any, **kwargs: Any) -> Any:
        if updates.watching and not session.inside:
            updates.before_backward()
        return original(*args, **kwargs)

    return backward
