"""`nn.DataParallel` on one device: the module itself, called by the whole batch."""

from __future__ import annotations

from typing import Any

from torch import nn

from dpcheck.verify.session import Session
from dpcheck.verify.shim.patching import Function, Patches


def install(session: Session, patches: Patches) -> None:
    def constructing(original: Function) -> Function:
        def initialize(
            self: Any, module: nn.Module, device_ids: Any = None, output_device: Any = None, dim: int = 0
        ) -> None:
            session.note("data-parallel", "nn.DataParallel ran its module on one device", session.here())
            if session.job.device == "cpu":
                original(self, module, None, None, dim)
                # With a GPU build of torch the constructor may find devices that the run does not use.
                self.device_ids = []
            else:
                original(self, module, [_current()], _current(), dim)

        return initialize

    def data_parallel(
        module: nn.Module,
        inputs: Any,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
        module_kwargs: Any = None,
    ) -> Any:
        inputs = inputs if isinstance(inputs, tuple) else (inputs,)
        return module(*inputs, **(module_kwargs or {}))

    patches.wrap(nn.DataParallel, "__init__", constructing)
    patches.replace(nn.parallel, "data_parallel", data_parallel)


def _current() -> int:
    import torch

    return torch.cuda.current_device()
