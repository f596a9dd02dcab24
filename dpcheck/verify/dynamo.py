"""Keeps `torch._dynamo` out of processes that compile nothing.

Optimizers, DDP, FSDP and checkpointing import it on first use, which takes as long as importing torch does, only to
tell it to leave them alone. Here those callers, and no others, get the answers that it gives when nothing is being
compiled; whoever else asks for it gets the real module, as `fully_shard` does, whose DTensors need it.
"""

from __future__ import annotations

import gc
import importlib
import os
import pathlib
import sys
import types
from collections.abc import Callable
from typing import TypeVar, cast

import torch

_F = TypeVar("_F", bound=Callable[..., object])
_NAME = "torch._dynamo"
_TESTED = ("2.13.",)
"""The releases of torch that the tests ran on; on others `leave_out` tries a step of training first."""


def leave_out() -> bool:
    """Keep `torch._dynamo` out. Where that does not work, import it, and return False."""
    if _NAME in sys.modules:
        return False
    if not torch.__version__.startswith(_TESTED) and not _works():
        importlib.import_module(_NAME)
        return False
    _install()
    return True


def _install() -> None:
    import torch._compile as wrappers

    # What `torch._disable_dynamo` wrapped looks here for its function with compilation disabled.
    for function in gc.get_objects():
        if type(function) is types.FunctionType and function.__code__.co_filename == wrappers.__file__:
            wrapped = getattr(function, "__wrapped__", None)
            if wrapped is not None:
                wrapped.__dynamo_disable = wrapped
    for module in (torch, wrappers):
        vars(module)["_disable_dynamo"] = _disable
    sys.modules[_NAME] = vars(torch)["_dynamo"] = _Absent(_NAME)


def _disable(function: _F | None = None, recursive: bool = True, **_: object) -> _F | Callable[[_F], _F]:
    return function if function is not None else lambda function: function


class _Absent(types.ModuleType):
    """Stands for the module until somebody needs the real one, and afterwards passes everything on to it."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__") and name != "__path__":
            raise AttributeError(name)
        if sys.modules.get(_NAME) is self:
            asking = sys._getframe(1).f_code.co_filename
            answer = _ANSWERS.get((asking, name))
            if answer is not None:
                return answer
            del sys.modules[_NAME]
            importlib.import_module(_NAME)
        return cast(object, getattr(sys.modules[_NAME], name))


def _nothing(*_: object, **__: object) -> None:
    pass


def _answers() -> dict[tuple[str, str], object]:
    home = pathlib.Path(torch.__file__).parent
    modes = types.SimpleNamespace(get_optimize_ddp_mode=lambda: "ddp_optimizer")
    rules = types.SimpleNamespace(clear_lru_cache=_nothing)
    checkpointing = types.SimpleNamespace(error_on_nested_fx_trace=True)
    return {
        (os.fspath(home / file), name): answer
        for file, name, answer in (
            ("optim/optimizer.py", "graph_break", _nothing),
            ("nn/parallel/distributed.py", "utils", modes),
            ("distributed/distributed_c10d.py", "trace_rules", rules),
            ("utils/checkpoint.py", "config", checkpointing),
            ("utils/checkpoint.py", "disable", _disable),
        )
    }


_ANSWERS = _answers()


def _works() -> bool:
    """Whether a step of DDP training succeeds without the module, tried in a child."""
    child = os.fork()
    if child == 0:
        try:
            _install()
            sys.stderr = pathlib.Path(os.devnull).open("w")  # noqa: SIM115 - closed by the end of the child
            _train()
            os._exit(0 if isinstance(sys.modules[_NAME], _Absent) else 1)
        finally:
            os._exit(1)
    return os.waitpid(child, 0)[1] == 0


def _train() -> None:
    import torch.distributed as dist
    from torch._C._distributed_c10d import HashStore

    dist.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
    for optimizer in (torch.optim.SGD(model.parameters(), 0.1), torch.optim.AdamW(model.parameters())):
        optimizer.zero_grad()
        model(torch.ones(3, 2)).sum().backward()
        optimizer.step()
