"""This process's own gradients, seen on their way into the parameters, before any averaging.

A hook on the parameter runs before the gradient is accumulated, and so before DDP writes the average back. Parameters
whose gradients never pass through their own accumulation (FSDP's) show nothing here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

from dpcheck.verify.hooks.shares import local
from dpcheck.verify.session import Session

MICRO_BATCHES_KEPT = 16


class LocalGradients:
    """By parameter: the sum over the window, and the part of each backward."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._hooked: dict[int, nn.Parameter] = {}  # holding them keeps their ids theirs
        self.sums: dict[int, torch.Tensor] = {}
        self.parts: dict[int, dict[int, torch.Tensor]] = {}
        self._depth = 0

    def watch(self, parameters: Iterable[torch.Tensor]) -> None:
        for parameter in parameters:
            if id(parameter) in self._hooked or not parameter.requires_grad or not parameter.is_leaf:
                continue
            self._hooked[id(parameter)] = parameter  # type: ignore[assignment]
            register: Any = parameter.register_hook
            register(functools.partial(self._arrived, id(parameter)))

    def forget(self, parameters: Iterable[torch.Tensor] | None = None) -> None:
        """The gradients of these parameters, or of all, were dropped: begin again."""
        if parameters is None:
            self.sums.clear()
            self.parts.clear()
            return
        for parameter in parameters:
            self.sums.pop(id(parameter), None)
            self.parts.pop(id(parameter), None)

    def _arrived(self, key: int, gradient: torch.Tensor) -> None:
        session = self._session
        if session.inside:
            return
        held = local(gradient.detach())
        if held.numel() == 0:
            return
        number = max(session.window.backwards - 1, 0)
        self.sums[key] = self.sums[key] + held if key in self.sums else held.clone()
        parts = self.parts.setdefault(key, {})
        if number < MICRO_BATCHES_KEPT:
            parts[number] = parts[number] + held if number in parts else held.clone()

    def counting_backwards(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Counts the outermost backwards only: a checkpoint runs one of its own inside."""

        @functools.wraps(original)
        def backward(*args: Any, **kwargs: Any) -> Any:
            session = self._session
            if session.inside or self._depth:
                return original(*args, **kwargs)
            session.window.backwards += 1
            session.event("backward", session.here(), inside="backward")
            self._depth += 1
            try:
                return original(*args, **kwargs)
            finally:
                self._depth -= 1
                session.event("backward done", inside="")

        return backward


def install(session: Session) -> LocalGradients:
    gradients = LocalGradients(session)
    optimizer: Any = torch.optim.Optimizer
    module: Any = nn.Module
    tensor: Any = torch.Tensor
    construct, add, zero, zero_module = (
        optimizer.__init__,
        optimizer.add_param_group,
        optimizer.zero_grad,
        module.zero_grad,
    )

    def watched(self: torch.optim.Optimizer) -> None:
        for group in self.param_groups:
            gradients.watch(group["params"])

    @functools.wraps(construct)
    def initialize(self: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> None:
        construct(self, *args, **kwargs)
        watched(self)

    @functools.wraps(add)
    def add_param_group(self: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> None:
        add(self, *args, **kwargs)
        watched(self)

    @functools.wraps(zero)
    def zero_grad(self: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> None:
        gradients.forget(parameter for group in self.param_groups for parameter in group["params"])
        zero(self, *args, **kwargs)

    @functools.wraps(zero_module)
    def zero_grad_of_module(self: nn.Module, *args: Any, **kwargs: Any) -> None:
        gradients.forget(self.parameters())
        zero_module(self, *args, **kwargs)

    optimizer.__init__, optimizer.add_param_group, optimizer.zero_grad = initialize, add_param_group, zero_grad
    module.zero_grad = zero_grad_of_module
    tensor.backward = gradients.counting_backwards(tensor.backward)
    torch.autograd.backward = gradients.counting_backwards(torch.autograd.backward)
    return gradients
