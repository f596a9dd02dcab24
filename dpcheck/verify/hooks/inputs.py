"""The tensors that enter models and losses where no loader brings them: kept by a rank, exchanged in a reference.

This feeds scripts that cut their batches out of a tensor by hand. It reaches the models' inputs and the targets of
torch's own losses; what else the script computes from its batch stays the rank's, and then the sizes do not match.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from safetensors.torch import save_file
from torch.nn import functional

from dpcheck.verify.session import Session

_WITH_TARGETS = (
    "cross_entropy", "nll_loss", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy",
    "binary_cross_entropy_with_logits", "kl_div", "gaussian_nll_loss", "poisson_nll_loss", "hinge_embedding_loss",
    "multilabel_margin_loss", "multilabel_soft_margin_loss", "multi_margin_loss", "soft_margin_loss", "ctc_loss",
)  # fmt: skip
_KEPT = 64  # forwards and losses of a window

_Target = Callable[[torch.Tensor, int], torch.Tensor]


class Inputs:
    """What entered in the open window, in order."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._values: dict[str, torch.Tensor] = {}
        self._forwards = self._losses = 0
        session.at_window_start.append(self._restart)

    def _restart(self) -> None:
        self._values = {}
        self._forwards = self._losses = 0

    def entered(self, tensors: list[torch.Tensor]) -> None:
        """An outermost training forward got these."""
        if self._forwards < _KEPT:
            for leaf, tensor in enumerate(tensors):
                self._values[f"input/{self._forwards}/{leaf}"] = tensor.detach().clone().contiguous()
        self._forwards += 1

    def aimed_at(self, target: torch.Tensor) -> None:
        """A loss got these targets."""
        if self._losses < _KEPT:
            self._values[f"target/{self._losses}/0"] = target.detach().clone().contiguous()
        self._losses += 1

    def save(self) -> None:
        """Write them beside the window's tensors: `inputs-<window>.safetensors`."""
        if self._values and not self._session.window.fetches:
            save_file(self._values, self._session.folder / f"inputs-{self._session.window.index}.safetensors")


def install(session: Session, feed_target: _Target | None) -> Inputs:
    inputs = Inputs(session)
    for name in _WITH_TARGETS:
        original = getattr(functional, name, None)
        if original is not None:
            setattr(functional, name, _wrapping(session, inputs, feed_target, original))
    return inputs


def _wrapping(
    session: Session, inputs: Inputs, feed_target: _Target | None, original: Callable[..., Any]
) -> Callable[..., Any]:
    @functools.wraps(original)
    def loss(input: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
        if session.inside or not isinstance(target, torch.Tensor) or not getattr(input, "requires_grad", False):
            return original(input, target, *args, **kwargs)
        if session.is_rank:
            with session.looking_away(), torch.no_grad():
                if not session.window.fetches:
                    inputs.aimed_at(target)
        elif feed_target is not None:
            target = feed_target(target, input.shape[0] if input.dim() else 0)
        return original(input, target, *args, **kwargs)

    return loss
