"""torchvision's own tensors keep their kind through `Tensor.to`, which they know by the function itself."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch

from dpcheck.verify.shim.importing import AdaptingFinder


def install(finder: AdaptingFinder) -> None:
    """To be called while `Tensor.to` is torch's own: that is the function the tensors are told of."""
    original = torch.Tensor.to

    def adapt(module: ModuleType) -> None:
        kept: Any = getattr(module, "_FORCE_TORCHFUNCTION_SUBCLASS", None)
        if isinstance(kept, set):
            kept.add(original)

    finder.adapt("torchvision.tv_tensors._torch_function_helpers", adapt)
