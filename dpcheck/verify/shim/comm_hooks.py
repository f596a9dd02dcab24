"""Communication hooks that lower the precision of gradients, or approximate them, are not applied.

What they lose would hide what is to be judged. Other hooks, torch's plain ones and the script's own, stay.
"""

from __future__ import annotations

import functools
from typing import Any

from torch.nn.parallel import DistributedDataParallel

from dpcheck.verify.session import Session
from dpcheck.verify.shim.importing import AdaptingFinder
from dpcheck.verify.shim.patching import Function, Patches
from dpcheck.verify.shim.wrappers import FSDP

_TORCHS = ("torch.distributed.algorithms.ddp_comm_hooks", "torch.distributed.algorithms._comm_hooks")
APPROXIMATION = "approximating-hook"
_EXACT = frozenset({"allreduce_hook", "noop_hook", "reduce_scatter_hook", "post_localSGD_hook"})


def install(session: Session, patches: Patches, finder: AdaptingFinder) -> None:
    def is_lossy(hook: Any) -> bool:
        while isinstance(hook, functools.partial):
            hook = hook.func
        module = getattr(hook, "__module__", None) or ""
        return module.startswith(_TORCHS) and getattr(hook, "__name__", "") not in _EXACT

    def skipped(hook: Any) -> None:
        name = getattr(hook, "__qualname__", None) or str(hook)
        # Compression is another type of number, as mixed precision is. What else there is approximates the gradient.
        kind = "comm-hook" if "compress" in name.lower() else APPROXIMATION
        session.note(kind, f"the communication hook {name} was not applied and is not judged", session.here())

    def registering(original: Function) -> Function:
        def register_comm_hook(self: Any, state: Any, hook: Any) -> None:
            if is_lossy(hook):
                skipped(hook)
            else:
                original(self, state, hook)

        return register_comm_hook

    def registering_built_in(original: Function) -> Function:
        def register(self: Any, comm_hook_type: Any) -> None:
            if "COMPRESS" in str(comm_hook_type):
                skipped(comm_hook_type)
            else:
                original(self, comm_hook_type)

        return register

    patches.wrap(DistributedDataParallel, "register_comm_hook", registering)
    patches.wrap(DistributedDataParallel, "_register_builtin_comm_hook", registering_built_in)
    finder.adapt(FSDP, lambda module: patches.wrap(module.FullyShardedDataParallel, "register_comm_hook", registering))
