"""Calls of torch's loss functions: how many targets each one counts, and what each target weighs in the update.

The weight of a target is d(update)/d(loss of that target), after every later division, factor and accumulation. A hook
on the function's result sees d(update)/d(result), and every reduction is linear in the targets' losses, so the weight
is that times the reduction's own coefficient: 1 for a sum, 1/n for a mean, 1/(sum of the targets' class weights) where
classes are weighted. Nothing is computed anew: the script keeps torch's result, bit for bit.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
import sys
import threading
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

import torch
from torch.nn import _reduction
from torch.nn import functional as F

from dpcheck.verify.recording import Loss, Window
from dpcheck.verify.session import Session

_TARGETS_KEPT = 4096  # weights kept of one call, evenly thinned
_LOSSES_KEPT = 4096  # calls recorded in one window

Arguments = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Reduction:
    """How a loss function reduces the losses of its targets.

    `elements` counts the unreduced losses and `targets` those of them that enter the reduction; `entering` tells which
    (None: all). `coefficient` is d(result)/d(loss), for all of them or by target; None where it is not known.
    """

    elements: int
    targets: int
    entering: torch.Tensor | None
    coefficient: float | torch.Tensor | None


_broadcast: Any = torch.broadcast_shapes
_Counted = Callable[[Arguments, str], Reduction]


def _uniform(size: Callable[[Arguments], int]) -> _Counted:
    """A function whose mean divides by the number of its unreduced losses."""

    def reduction(arguments: Arguments, how: str) -> Reduction:
        elements = size(arguments)
        return Reduction(elements, elements, None, 1 / max(elements, 1) if how == "mean" else 1.0)

    return reduction


def _elementwise(*names: str) -> Callable[[Arguments], int]:
    """The number of elements of the broadcast tensors."""
    return lambda arguments: math.prod(_broadcast(*(arguments[name].shape for name in names)))


def _rows(*names: str) -> Callable[[Arguments], int]:
    """The same without the last dimension, over which the function itself sums."""
    return lambda arguments: math.prod(_broadcast(*(arguments[name].shape for name in names))[:-1])


def _cosine_rows(arguments: Arguments) -> int:
    inputs = _broadcast(arguments["input1"].shape, arguments["input2"].shape)
    return math.prod(_broadcast(inputs[:-1], arguments["target"].shape))


def _weighted_mean(arguments: Arguments, how: str) -> Reduction:
    """`mse_loss` and `l1_loss`: their mean divides by the sum of the elements' weights, where these are given."""
    elements = _elementwise("input", "target")(arguments)
    weight = arguments.get("weight")
    divisor = elements if weight is None else float(weight.sum())
    return Reduction(elements, elements, None, 1 / divisor if how == "mean" and divisor else 1.0)


def _divergence(arguments: Arguments, how: str) -> Reduction:
    elements = _elementwise("input", "target")(arguments)
    shape = arguments["input"].shape
    divisor = {"mean": elements, "batchmean": shape[0] if shape else 1}.get(how, 1)
    return Reduction(elements, elements, None, 1 / max(divisor, 1))


def _classes(arguments: Arguments, how: str) -> Reduction:
    """`nll_loss` and `cross_entropy`: targets may be ignored, and classes weighted."""
    return _classified(arguments, how, arguments["input"].shape)


def _linear_classes(arguments: Arguments, how: str) -> Reduction:
    """`linear_cross_entropy`: `cross_entropy` of a linear layer's output."""
    return _classified(arguments, how, arguments["input"].shape[:-1] + arguments["linear_weight"].shape[:-1])


def _classified(arguments: Arguments, how: str, shape: torch.Size) -> Reduction:
    target, weight = arguments["target"], arguments.get("weight")
    if target.is_floating_point():  # probabilities of the classes
        elements = math.prod(shape) // max(shape[0 if len(shape) == 1 else 1], 1)
        return Reduction(elements, elements, None, 1 / max(elements, 1) if how == "mean" else 1.0)
    ignored = arguments.get("ignore_index")
    entering = (target != (-100 if ignored is None else ignored)).reshape(-1)
    targets = int(entering.sum())
    divisor: float = targets
    if weight is not None:
        divisor = float(weight[target.reshape(-1)[entering]].sum())
    coefficient = 1 / divisor if how == "mean" and divisor else 1.0
    return Reduction(target.numel(), targets, entering, coefficient)


def _transcribed(arguments: Arguments, how: str) -> Reduction:
    """`ctc_loss`: its mean divides each sequence's loss by the length of its target first."""
    batched = arguments["log_probs"].dim() == 3
    elements = arguments["log_probs"].shape[1] if batched else 1
    if how != "mean":
        return Reduction(elements, elements, None, 1.0)
    lengths = torch.as_tensor(arguments["target_lengths"], dtype=torch.float64).reshape(-1).clamp(min=1)
    return Reduction(elements, elements, None, 1 / (lengths * elements))


def _triplets_with_distance(arguments: Arguments, how: str) -> Reduction:
    elements = _rows("anchor", "positive", "negative")(arguments)
    known = how != "mean" or arguments.get("distance_function") is None  # a distance may have any shape
    return Reduction(elements, elements, None, (1 / max(elements, 1) if how == "mean" else 1.0) if known else None)


def _samples(arguments: Arguments) -> int:
    shape = arguments["input"].shape
    return shape[0] if len(shape) > 1 else 1


FUNCTIONS: dict[str, _Counted] = {
    "binary_cross_entropy": _uniform(_elementwise("input")),
    "binary_cross_entropy_with_logits": _uniform(_elementwise("input")),
    "cosine_embedding_loss": _uniform(_cosine_rows),
    "cross_entropy": _classes,
    "ctc_loss": _transcribed,
    "gaussian_nll_loss": _uniform(_elementwise("input", "target")),
    "hinge_embedding_loss": _uniform(_elementwise("input", "target")),
    "huber_loss": _uniform(_elementwise("input", "target")),
    "kl_div": _divergence,
    "l1_loss": _weighted_mean,
    "linear_cross_entropy": _linear_classes,
    "margin_ranking_loss": _uniform(_elementwise("input1", "input2", "target")),
    "mse_loss": _weighted_mean,
    "multi_margin_loss": _uniform(_samples),
    "multilabel_margin_loss": _uniform(_samples),
    "multilabel_soft_margin_loss": _uniform(_rows("input", "target")),
    "nll_loss": _classes,
    "poisson_nll_loss": _uniform(_elementwise("input", "target")),
    "smooth_l1_loss": _uniform(_elementwise("input", "target")),
    "soft_margin_loss": _uniform(_elementwise("input", "target")),
    "triplet_margin_loss": _uniform(_rows("anchor", "positive", "negative")),
    "triplet_margin_with_distance_loss": _triplets_with_distance,
}


def reduction_name(arguments: Arguments) -> str:
    """The reduction that a call asks for, by the older flags too."""
    average, reduce = arguments.get("size_average"), arguments.get("reduce")
    if average is not None or reduce is not None:
        name: str = _reduction.legacy_get_string(average, reduce, emit_warning=False)
        return name
    return str(arguments.get("reduction", "mean"))


class _Thread(threading.local):
    inside = False


class Losses:
    """Records loss functions of one process."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._thread = _Thread()

    def recorded(self, name: str, original: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        """`original` with a record of each call under autograd."""
        signature = inspect.signature(original)
        thread = self._thread

        @functools.wraps(original)
        def loss(*args: Any, **kwargs: Any) -> torch.Tensor:
            if self._session.inside or thread.inside or not torch.is_grad_enabled():
                return original(*args, **kwargs)
            thread.inside = True  # some call one another, and a distance function may call any
            try:
                result = original(*args, **kwargs)
            finally:
                thread.inside = False
            if isinstance(result, torch.Tensor) and result.requires_grad:
                try:
                    with self._session.looking_away(), torch.no_grad():
                        self._record(name, signature.bind(*args, **kwargs), result)
                except Exception as error:
                    place = self._session.here()
                    self._session.note("hook-failed", f"the targets of {name} were not counted: {error!r}", place)
            return result

        return loss

    def _record(self, name: str, bound: inspect.BoundArguments, result: torch.Tensor) -> None:
        session = self._session
        window = session.window
        place = session.here()
        if len(window.losses) >= _LOSSES_KEPT:
            session.note("losses-truncated", f"only the first {_LOSSES_KEPT} losses of a step were recorded", place)
            return
        if type(result) is not torch.Tensor or result.is_meta or torch._C._functorch.peek_interpreter_stack():
            session.note("loss-unseen", f"{name} was called on tensors of a kind whose targets are not counted", place)
            return
        arguments = bound.arguments
        how = reduction_name(arguments)
        reduction = FUNCTIONS[name](arguments, how)
        if arguments.get("weight") is not None and name in ("cross_entropy", "nll_loss", "linear_cross_entropy"):
            session.note("class-weights", f"{name} weights its classes, its targets are counted as equal", place)
        loss = Loss(name, how, reduction.targets, reduction.elements, window.backwards, place)
        again = torch._C._current_graph_task_id() != -1
        if not again:
            window.losses.append(loss)
        if reduction.coefficient is not None:
            # A checkpoint computes its losses again in the backward: of the two calls one is reached by a backward.
            weights = _Weights(session, window, loss, reduction, listed=not again)
            hooked: Any = result
            hooked.register_hook(weights.reached)


class _Weights:
    """The weights of the targets of one call, summed over the backwards that reach it."""

    def __init__(self, session: Session, window: Window, loss: Loss, reduction: Reduction, *, listed: bool) -> None:
        self._session = session
        self._window = window
        self._loss = loss
        self._reduction = reduction
        self._listed = listed
        self._index = len(window.losses) - 1
        self._total: torch.Tensor | None = None

    def reached(self, gradient: torch.Tensor) -> None:
        """The hook on the function's result. A gradient that is itself differentiated is no update."""
        session = self._session
        if session.inside or session.window is not self._window or _asked_for_a_graph():
            return
        try:
            with session.looking_away(), torch.no_grad():
                self._add(gradient.detach())
        except Exception as error:
            session.note("hook-failed", f"what a target of {self._loss.function} weighs was not seen: {error!r}")

    def _add(self, gradient: torch.Tensor) -> None:
        if not self._listed:
            self._listed = True
            self._index = len(self._window.losses)
            self._window.losses.append(self._loss)
        reduction, loss = self._reduction, self._loss
        assert reduction.coefficient is not None
        flat = gradient.to("cpu", torch.float64).reshape(-1)
        if loss.reduction == "none":
            weights = flat if reduction.entering is None else flat[reduction.entering]
        elif isinstance(reduction.coefficient, float):
            kept = min(reduction.targets, _TARGETS_KEPT)
            weights = (flat * reduction.coefficient).expand(kept)
        else:
            weights = flat * reduction.coefficient
        self._total = weights.clone() if self._total is None else self._total + weights
        shown = self._total
        if loss.reduction == "none":
            # The script reduces by hand: what it masked has no part in the update.
            counted = shown != 0
            if bool(counted.any()):
                shown = shown[counted]
                loss.targets = shown.numel()
        stride = max(1, math.ceil(shown.numel() / _TARGETS_KEPT))
        self._session.tensors[f"target/{self._index}"] = shown[::stride].clone()
        loss.weighed = True


def _asked_for_a_graph() -> bool:
    """Whether the backward under way is `torch.autograd.grad(…, create_graph=True)`: a penalty, an inner loop."""
    if not torch.is_grad_enabled():
        return False
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code is torch.autograd.grad.__code__:
            return True
        frame = frame.f_back
    return False


def install(session: Session) -> None:
    losses = Losses(session)
    patched: Any = F
    for name in FUNCTIONS:
        original = getattr(patched, name, None)
        if original is not None:
            setattr(patched, name, losses.recorded(name, original))
