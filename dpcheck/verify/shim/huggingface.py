"""Accelerate and transformers: on CPU, in one precision. They find the ranks in the environment, as under torchrun."""

from __future__ import annotations

import inspect
import os
from types import ModuleType
from typing import Any

from dpcheck.verify.session import Session
from dpcheck.verify.shim.importing import AdaptingFinder

_HALF = ("fp16", "bf16", "fp16_full_eval", "bf16_full_eval")
_SET_OFF = {"tf32": None, "torch_compile": False, "torch_compile_backend": None, "torch_compile_mode": None}
_CPU_OPTIMIZERS = {
    "adamw_torch_fused": "adamw_torch",
    "adamw_apex_fused": "adamw_torch",
    "adamw_bnb_8bit": "adamw_torch",
}


def install(session: Session, finder: AdaptingFinder) -> None:
    if session.job.device == "cpu":
        os.environ["ACCELERATE_USE_CPU"] = "true"
    for name in ("ACCELERATE_MIXED_PRECISION", "ACCELERATE_DYNAMO_BACKEND"):
        if name in os.environ:
            os.environ[name] = "no"
    finder.adapt("accelerate.accelerator", lambda module: _accelerator(session, module))
    finder.adapt("transformers.training_args", lambda module: _training_arguments(session, module))


def _accelerator(session: Session, module: ModuleType) -> None:
    accelerator: Any = module.Accelerator
    construct = accelerator.__init__
    signature = inspect.signature(construct)

    def initialize(*args: Any, **kwargs: Any) -> None:
        bound = signature.bind(*args, **kwargs)
        asked = bound.arguments.get("mixed_precision")
        if asked is not None and str(asked) != "no":
            session.note("autocast", f"Accelerate's mixed_precision={str(asked)!r} was off", session.here())
        bound.arguments["mixed_precision"] = "no"
        if session.job.device == "cpu":
            bound.arguments["cpu"] = True
        if "dynamo_backend" in bound.arguments:
            del bound.arguments["dynamo_backend"]
        handlers = bound.arguments.get("kwargs_handlers")
        if handlers:
            bound.arguments["kwargs_handlers"] = [handler for handler in handlers if not _is_low_precision(handler)]
        construct(*bound.args, **bound.kwargs)

    initialize.__signature__ = signature  # type: ignore[attr-defined]
    accelerator.__init__ = initialize


def _is_low_precision(handler: Any) -> bool:
    return type(handler).__name__ in ("FP8RecipeKwargs", "TERecipeKwargs", "MSAMPRecipeKwargs", "AORecipeKwargs")


def _training_arguments(session: Session, module: ModuleType) -> None:
    arguments: Any = module.TrainingArguments
    settle = arguments.__post_init__

    def post_init(self: Any) -> None:
        lowered = [name for name in _HALF if getattr(self, name, False)]
        if lowered:
            session.note("autocast", f"the Trainer's {', '.join(lowered)} was off", session.here())
        for name in lowered:
            setattr(self, name, False)
        for name, value in _SET_OFF.items():
            if getattr(self, name, None):
                setattr(self, name, value)
        if session.job.device == "cpu":
            setattr(self, "use_cpu" if hasattr(self, "use_cpu") else "no_cuda", True)
            self.optim = _CPU_OPTIMIZERS.get(str(getattr(self.optim, "value", self.optim)), self.optim)
            if hasattr(self, "ddp_backend"):
                self.ddp_backend = None
        settle(self)

    arguments.__post_init__ = post_init
