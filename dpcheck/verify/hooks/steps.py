"""The step boundary: what the optimizer is about to use is recorded, and after K steps the script is left.

The global pre-step hook fires again inside a step when a subclass calls `super().step()` or an optimizer wraps another
(ZeroRedundancyOptimizer): only the outermost step of a moment counts.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import torch
from safetensors.torch import save_file
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from dpcheck.verify.hooks.gradients import LocalGradients
from dpcheck.verify.hooks.modules import Models
from dpcheck.verify.hooks.shares import Piece, digest, local, pieces
from dpcheck.verify.recording import Place, Share, state_file, tensors_file
from dpcheck.verify.session import Session
from dpcheck.verify.shim import importing

_FSDP = "torch.distributed.fsdp.fully_sharded_data_parallel"


class Stepping(Protocol):
    """An optimizer, or what stands for one."""

    param_groups: Any


class Steps:
    """Closes the windows of one process. `passes` is asked how many passes over the training data have ended."""

    def __init__(self, session: Session, models: Models, gradients: LocalGradients, passes: Callable[[], int]) -> None:
        self._session = session
        self._models = models
        self._gradients = gradients
        self._passes = passes
        self._optimizers: list[Stepping] = []
        self._taken: dict[int, int] = {}  # steps by optimizer
        self._depth = 0
        self.unclipped: dict[int, torch.Tensor] = {}
        self.clipped_at: Place | None = None

    def before(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: dict[str, Any]) -> Any:
        self._depth += 1
        if self._depth > 1 or self._session.inside:
            return None
        closure = kwargs.get("closure") or (args[1] if len(args) > 1 and callable(args[1]) else None)
        if closure is None:
            self.close(optimizer)
            return None
        once = self._after_first_call(optimizer, closure)
        if "closure" in kwargs:
            return args, {**kwargs, "closure": once}
        return (args[0], once, *args[2:]), kwargs

    def _after_first_call(self, optimizer: torch.optim.Optimizer, closure: Callable[..., Any]) -> Callable[..., Any]:
        """The closure computes the gradients that the step uses; LBFGS calls it again from other weights."""
        called = False

        @functools.wraps(closure)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            nonlocal called
            with torch.enable_grad():
                result = closure(*args, **kwargs)
            if not called:
                called = True
                self.close(optimizer)
            return result

        return wrapper

    def after(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: dict[str, Any]) -> None:
        self._depth = max(self._depth - 1, 0)
        if self._depth == 0 and not self._session.inside:
            self.begin_next()

    def close(self, optimizer: Stepping) -> None:
        """Record the open window, now that `optimizer` is about to step."""
        session = self._session
        if not any(optimizer is known for known in self._optimizers):
            self._optimizers.append(optimizer)
        number = next(n for n, known in enumerate(self._optimizers) if known is optimizer)
        window = session.window
        window.optimizer, window.optimizer_type = number, type(optimizer).__name__
        window.place = session.here()
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            session.recording.group = torch.distributed.get_world_size()
        wanted = session.job.window == "last" or window.index < self._limit()
        if wanted:
            with session.harmlessly(), torch.no_grad():
                self._record(optimizer, number)
                for finish in session.before_window_ends:
                    finish()
            session.recording.windows.append(window)
        self._taken[number] = self._taken.get(number, 0) + 1
        session.event("step", window.place)
        if session.job.window == "last" and len(session.recording.windows) > session.job.steps:
            self._drop_oldest()
        if self._enough():
            session.stop()

    def about_to_clip(self, parameters: Iterable[torch.Tensor]) -> None:
        """Keep the gradients as they are before the first clip of the window."""
        if self.clipped_at is None:
            self.clipped_at = self._session.places.here(3)
        for parameter in parameters:
            if isinstance(parameter, nn.Parameter) and parameter.grad is not None:
                self.unclipped.setdefault(id(parameter), parameter.grad.detach().clone())

    def begin_next(self) -> None:
        self._gradients.forget()
        self.unclipped = {}
        self.clipped_at = None
        self._session.open_next_window()

    def _limit(self) -> int:
        """Windows that are recorded: K steps of an optimizer, those of the others between them included."""
        return self._session.job.steps * max(len(self._optimizers), 1) + 8

    def _enough(self) -> bool:
        job = self._session.job
        if job.window == "last":
            return self._passes() >= job.epochs
        enough = max(self._taken.values()) >= job.steps
        return enough and (job.epochs == 1 or self._passes() >= job.epochs)

    def _drop_oldest(self) -> None:
        oldest = self._session.recording.windows.pop(0).index
        for file in (tensors_file(self._session.folder, oldest), state_file(self._session.folder, oldest)):
            file.unlink(missing_ok=True)

    def _record(self, optimizer: Stepping, number: int) -> None:
        session = self._session
        window = session.window
        tensors = session.tensors
        for piece in self._pieces(optimizer, number):
            weight, _ = piece.share(piece.of(piece.holder))
            window.weights.append(weight)
            gradient = piece.holder.grad
            if gradient is not None and gradient.numel():
                share, tensors[f"gradient/{piece.name}"] = piece.share(piece.of(gradient))
                window.gradients.append(share)
            self._record_local(piece)
            clean = self.unclipped.get(id(piece.holder))
            if clean is not None:
                _, tensors[f"unclipped/{piece.name}"] = piece.share(piece.of(clean))
        window.clipped = self.clipped_at
        window.local = bool(self._gradients.sums)
        window.rates = [_rate(group) for group in optimizer.param_groups]
        window.buffers = {name: digest(buffer) for name, buffer in self._models.buffers(saved=True).items()}
        save_file(
            {name: tensor.contiguous() for name, tensor in tensors.items()}, tensors_file(session.folder, window.index)
        )

    def _record_local(self, piece: Piece) -> None:
        if not self._session.is_rank or piece.start or piece.low:
            return
        tensors = self._session.tensors
        key = id(piece.holder)
        if key in self._gradients.sums:
            if self._gradients.sums[key].numel() != local(piece.holder).numel():
                return  # FSDP1 gives the gradient of the whole flat parameter, and keeps a part of it
            _, tensors[f"local/{piece.name}"] = piece.share(piece.of(self._gradients.sums[key]))
        parts = self._gradients.parts.get(key, {})
        if self._session.window.backwards > 1:
            for backward, part in parts.items():
                _, tensors[f"micro/{backward}/{piece.name}"] = piece.share(piece.of(part))

    def _pieces(self, optimizer: Stepping, number: int) -> list[Piece]:
        """The named pieces of what the optimizer steps; what no module owns is named by its place in the optimizer."""
        named: dict[int, list[Piece]] = {}
        for piece in self._models.pieces():
            named.setdefault(id(piece.holder), []).append(piece)
        found: list[Piece] = []
        position = 0
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                own = named.get(id(parameter))
                found += own if own is not None else pieces(f"optimizer{number}.{position}", parameter)
                position += 1
        return found


def install(session: Session, models: Models, gradients: LocalGradients, passes: Callable[[], int]) -> Steps:
    steps = Steps(session, models, gradients, passes)
    register_optimizer_step_pre_hook(steps.before)
    register_optimizer_step_post_hook(steps.after)
    clipping: Any = torch.nn.utils.clip_grad
    for name in ("clip_grad_norm_", "clip_grad_value_"):
        original = getattr(clipping, name)
        wrapper = _keeping_unclipped(session, steps, original)
        setattr(clipping, name, wrapper)
        setattr(torch.nn.utils, name, wrapper)
    importing.install().adapt(_FSDP, lambda module: _keep_unclipped_shards(session, steps, module))
    return steps


def _keep_unclipped_shards(session: Session, steps: Steps, module: Any) -> None:
    """FSDP1 clips by a method of its own, over the norm of all shards."""
    wrapped = module.FullyShardedDataParallel
    original = wrapped.clip_grad_norm_

    @functools.wraps(original)
    def clip(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        if session.inside:
            return original(self, *args, **kwargs)
        steps.about_to_clip(list(self.parameters()))
        with session.looking_away():
            return original(self, *args, **kwargs)

    wrapped.clip_grad_norm_ = clip


def _keeping_unclipped(session: Session, steps: Steps, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def clip(parameters: Any, *args: Any, **kwargs: Any) -> Any:
        if session.inside:
            return original(parameters, *args, **kwargs)
        listed = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
        steps.about_to_clip(listed)
        return original(listed, *args, **kwargs)

    return clip


def _rate(group: dict[str, Any]) -> float | None:
    """The learning rate of a parameter group, a number or a tensor. Some optimizers find it by themselves."""
    rate = group.get("lr")
    return None if rate is None else float(rate)


def shares_of_state(models: Models) -> tuple[dict[str, torch.Tensor], dict[str, Share]]:
    """The models' parameters and buffers, whole as this process holds them: `parameter/<name>`, `buffer/<name>`."""
    tensors: dict[str, torch.Tensor] = {}
    shares: dict[str, Share] = {}
    for piece in models.pieces():
        flat = piece.of(piece.holder)
        key = f"parameter/{piece.name}"
        tensors[key] = flat.clone()
        shares[key] = Share(piece.name, list(piece.shape), piece.start, piece.stop, 1, "", 0.0)
    for name, buffer in models.buffers().items():
        key = f"buffer/{name}"
        tensors[key] = buffer.detach().reshape(-1).clone()
        shares[key] = Share(name, list(buffer.shape), 0, buffer.numel(), 1, "", 0.0)
    return tensors, shares
