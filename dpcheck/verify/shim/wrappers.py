"""DDP and FSDP: their devices and their mixed precision; what they take hold of has been promoted before."""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from dpcheck.verify.session import Session
from dpcheck.verify.shim.importing import AdaptingFinder
from dpcheck.verify.shim.patching import Function, Patches
from dpcheck.verify.shim.precision import Precision

FSDP = "torch.distributed.fsdp.fully_sharded_data_parallel"
"""The module of FSDP: importing it takes as long as importing torch, and most scripts do without."""
_INSIDE_FSDP = "torch.distributed.fsdp._init_utils"
_FULLY_SHARD = (
    "torch.distributed.fsdp._fully_shard._fully_shard",
    "torch.distributed._composable.fsdp.fully_shard",  # before torch 2.6
)


def install(session: Session, patches: Patches, finder: AdaptingFinder, precision: Precision) -> None:
    wrapping = _Wrapping(session, precision)

    def fsdp(module: ModuleType) -> None:
        patches.wrap(module.FullyShardedDataParallel, "__init__", wrapping.fsdp)

    def inside_fsdp(module: ModuleType) -> None:
        patches.replace(module, "_check_module_states_for_sync_module_states", lambda module_states: None)

    def fully_shard(module: ModuleType) -> None:
        patches.wrap(module, "fully_shard", wrapping.fully_shard)

    patches.wrap(DistributedDataParallel, "__init__", wrapping.ddp)
    finder.adapt(FSDP, fsdp)
    for name in _FULLY_SHARD:
        finder.adapt(name, fully_shard)
    if session.job.device == "cpu":
        # They would ask for a GPU, and for parameters on one.
        patches.replace(DistributedDataParallel, "_passing_sync_batchnorm_handle", lambda self, module: None)
        finder.adapt(_INSIDE_FSDP, inside_fsdp)


class _Wrapping:
    def __init__(self, session: Session, precision: Precision) -> None:
        self._session = session
        self._precision = precision
        self._on_cpu = session.job.device == "cpu"

    def _drop(self, arguments: dict[str, Any], name: str, wrapper: str) -> None:
        if arguments.get(name) is not None:
            text = f"the {name} of {wrapper} was not applied"
            self._session.note("mixed-precision", text, self._session.here())
            arguments[name] = None

    def ddp(self, original: Function) -> Function:
        signature = inspect.signature(original)

        def initialize(*args: Any, **kwargs: Any) -> None:
            arguments = signature.bind(*args, **kwargs).arguments
            self._precision.promote(arguments["module"])
            self._drop(arguments, "mixed_precision", "DDP")
            if self._on_cpu:
                arguments.pop("device_ids", None)
                arguments.pop("output_device", None)
            original(**arguments)

        return initialize

    def fsdp(self, original: Function) -> Function:
        signature = inspect.signature(original)

        def initialize(*args: Any, **kwargs: Any) -> None:
            arguments = signature.bind(*args, **kwargs).arguments
            self._precision.promote(arguments["module"])
            self._drop(arguments, "mixed_precision", "FSDP")
            if self._on_cpu:
                arguments["device_id"] = torch.device("cpu")
                arguments.pop("cpu_offload", None)
            original(**arguments)

        return initialize

    def fully_shard(self, original: Function) -> Function:
        def shard(module: Any, *args: Any, **kwargs: Any) -> Any:
            for one in module if isinstance(module, (list, tuple)) else [module]:
                self._precision.promote(one)
            policy = kwargs.pop("mp_policy", None)
            if getattr(policy, "param_dtype", None) or getattr(policy, "reduce_dtype", None):
                self._session.note(
                    "mixed-precision", "the mp_policy of fully_shard was not applied", self._session.here()
                )
            if self._on_cpu:
                kwargs.pop("offload_policy", None)
            return original(module, *args, **kwargs)

        return shard
