"""Mixed precision is off: verify judges the algorithm, in one precision."""

from __future__ import annotations

from typing import Any

import torch

from dpcheck.verify.session import Session
from dpcheck.verify.shim.patching import Function, Patches


def install(session: Session, patches: Patches) -> None:
    def entering_autocast(original: Function) -> Function:
        def initialize(
            self: Any, device_type: str = "cuda", dtype: Any = None, enabled: bool = True, cache_enabled: Any = None
        ) -> None:
            if enabled:
                session.note("autocast", "mixed precision (autocast) was off", session.here())
            if session.job.device == "cpu":
                device_type = "cpu"
            original(self, device_type, dtype=torch.bfloat16, enabled=False, cache_enabled=cache_enabled)

        return initialize

    def making_scaler(original: Function) -> Function:
        def initialize(self: Any, *args: Any, **kwargs: Any) -> None:
            if kwargs.get("enabled", True):
                session.note("grad-scaler", "the gradient scaler was off: losses were not scaled", session.here())
            # Without the settings, positional or not: a scaler that is off has none.
            original(self, enabled=False)

        return initialize

    def setting(original: Function) -> Function:
        def set_autocast(*args: Any) -> None:
            original(*args[:-1], False)

        return set_autocast

    from torch.amp.autocast_mode import autocast

    patches.wrap(autocast, "__init__", entering_autocast)
    for scaler in _scalers():
        patches.wrap(scaler, "__init__", making_scaler)
    patches.wrap_each(torch, ("set_autocast_enabled", "set_autocast_cpu_enabled"), setting)


def _scalers() -> list[type]:
    """The scaler of any device where torch has one, else CUDA's; the others call it."""
    try:
        from torch.amp.grad_scaler import GradScaler
    except ImportError:
        from torch.cuda.amp.grad_scaler import GradScaler as CudaScaler

        return [CudaScaler]
    return [GradScaler]
