"""Nothing is compiled: the functions run as they were written."""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import nn

from dpcheck.verify.session import Session
from dpcheck.verify.shim.patching import Patches


def install(session: Session, patches: Patches) -> None:
    def note(what: str) -> None:
        # Libraries script a few functions of theirs whenever they are imported.
        if session.places.called_by_user():
            session.note("compile", f"{what} was skipped: the code ran as written", session.here())

    def compile(model: Any = None, *args: Any, **kwargs: Any) -> Any:
        note("torch.compile")
        return (lambda function: function) if model is None else model

    def compile_module(self: nn.Module, *args: Any, **kwargs: Any) -> None:
        note("Module.compile")

    def script(obj: Any, *args: Any, **kwargs: Any) -> Any:
        note("torch.jit.script")
        return obj

    def trace(func: Any = None, *args: Any, **kwargs: Any) -> Any:
        note("torch.jit.trace")
        return (lambda function: function) if func is None else func

    def as_it_is(obj: Any, *args: Any, **kwargs: Any) -> Any:
        return obj

    # For those who reach the compiler by other ways.
    os.environ["TORCHDYNAMO_DISABLE"] = "1"
    patches.replace(torch, "compile", compile)
    patches.replace(nn.Module, "compile", compile_module)
    patches.replace(torch.jit, "script", script)
    patches.replace(torch.jit, "trace", trace)
    patches.replace(torch.jit, "trace_module", lambda mod, *args, **kwargs: trace(mod))
    for name in ("script_if_tracing", "freeze", "optimize_for_inference"):
        patches.replace(torch.jit, name, lambda obj, *args, **kwargs: as_it_is(obj))
