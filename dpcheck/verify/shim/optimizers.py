"""Optimizers: variants of their step that only run on GPUs give way to the plain one, which computes the same."""

from __future__ import annotations

import inspect
from typing import Any

import torch

from dpcheck.verify.shim.patching import Function, Patches

_OF_GPUS = ("fused", "capturable")


def install(patches: Patches) -> None:
    for name, kind in sorted(vars(torch.optim).items()):
        if isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer) and "__init__" in vars(kind):
            if set(_OF_GPUS) & set(inspect.signature(kind).parameters):
                patches.wrap(getattr(torch.optim, name), "__init__", _constructing)


def _constructing(original: Function) -> Function:
    def initialize(self: Any, *args: Any, **kwargs: Any) -> None:
        for option in _OF_GPUS:
            kwargs.pop(option, None)
        original(self, *args, **kwargs)

    return initialize
