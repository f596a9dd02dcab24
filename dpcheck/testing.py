"""For test suites: does this loss, trained data-parallel, give the gradient of one process on the whole batch?

    from dpcheck.testing import assert_equivalent

    def test_all_tokens_weigh_alike():
        assert_equivalent(build_model, loss, batches=[long_batch, short_batch])

`loss(model, batch)` is what the training step computes on one rank. It runs on as many gloo ranks as there are batches,
on copies of one model inside DistributedDataParallel, and once in a process of its own (world size 1) on the batches'
union. Give the ranks unequal numbers of targets: equal numbers hide a per-rank mean.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import pathlib
import pickle
import select
import signal
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray

    Gradients = dict[str, NDArray[np.float64]]

__all__ = ["assert_equivalent"]

_B = TypeVar("_B")
_SHOWN = 3  # worst tensors
_NEAR = 1e-6  # how near a factor must be to the world size, or its inverse, to be called so


def assert_equivalent(
    build_model: Callable[[], torch.nn.Module],
    loss: Callable[[torch.nn.Module, _B], torch.Tensor],
    batches: Sequence[_B],
    *,
    union: Callable[[Sequence[_B]], _B] | None = None,
    tolerance: float = 1e-8,
    timeout: float = 60.0,
) -> None:
    """Assert that the averaged gradient of `loss` over the ranks is that of one process on the union of the batches.

    `batches` holds one batch for each rank. `union` puts them together; by default tensors are concatenated along
    their first dimension, which needs equal inner shapes. Models and floating-point batches are taken to float64, and
    `tolerance` bounds the relative error of the whole gradient, ‖a − r‖ / ‖r‖. The processes are forked from this one
    and end within `timeout` seconds.

    Raises `AssertionError` that says how far the gradients are apart and what would explain it; `RuntimeError` with
    the traceback where the loss itself fails in a process, and `TimeoutError` where one does not end.
    """
    if len(batches) < 2:
        raise ValueError("assert_equivalent needs at least two batches, one for each rank")
    whole = (union or _concatenated)(batches)
    state = {name: value.clone() for name, value in build_model().state_dict().items()}
    with tempfile.TemporaryDirectory(prefix="dpcheck-") as name:
        run = functools.partial(_gradients, build_model, state, loss)
        together = pathlib.Path(name, "ranks")
        work = [functools.partial(run, batch, rank, len(batches), together) for rank, batch in enumerate(batches)]
        work.append(functools.partial(run, whole, 0, 1, pathlib.Path(name, "one")))
        *ranks, (reference, _) = _forked(work, timeout)
    _compare([averaged for averaged, _ in ranks], [own for _, own in ranks], reference, tolerance)


def _concatenated(batches: Sequence[Any]) -> Any:
    from dpcheck.verify import content
    from dpcheck.verify.feed.union import joined

    columns = zip(*(content.leaves(batch) for batch in batches), strict=True)
    if any(len({tuple(tensor.shape[1:]) for tensor in column}) > 1 for column in columns):
        raise ValueError("the batches differ in more than their first dimension: pass union= to put them together")
    return joined(list(batches))


# -- inside a process


def _gradients(
    build_model: Callable[[], torch.nn.Module],
    state: dict[str, torch.Tensor],
    loss: Callable[[torch.nn.Module, Any], torch.Tensor],
    batch: Any,
    rank: int,
    ranks: int,
    store: pathlib.Path,
) -> tuple[Gradients, Gradients]:
    """The gradients after the backward, by parameter, and this process's own before they were averaged."""
    import torch
    from torch import distributed
    from torch.nn.parallel import DistributedDataParallel

    from dpcheck.verify import content, dynamo

    dynamo.leave_out()
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks)}
    store_class: Any = getattr(distributed, "FileStore")  # noqa: B009 - torch's types do not list it
    distributed.init_process_group("gloo", store=store_class(str(store), ranks), rank=rank, world_size=ranks)
    model = build_model()
    model.load_state_dict(state)
    model.double()
    own: dict[str, torch.Tensor] = {}

    def keep(name: str) -> Callable[[torch.Tensor], None]:
        return lambda gradient: own.update({name: own.get(name, 0) + gradient.detach().clone()})

    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            hook: Any = parameter.register_hook
            hook(keep(name))
    raised = [tensor.double() if tensor.is_floating_point() else tensor for tensor in content.leaves(batch)]
    torch.manual_seed(0)
    wrapped = DistributedDataParallel(model)  # must live until the backward has ended
    value: Any = loss(wrapped, content.replaced(batch, raised))
    value.backward()
    averaged = {
        name: parameter.grad.double().numpy()
        for name, parameter in model.named_parameters()
        if parameter.grad is not None
    }
    return averaged, {name: gradient.double().numpy() for name, gradient in own.items()}


# -- processes


def _forked(work: Sequence[Callable[[], Any]], timeout: float) -> list[Any]:
    """What the functions return, each called in a process of its own, all at once."""
    importlib.import_module("torch.distributed")  # once, here, for all of them

    children: list[tuple[int, int]] = []
    end = time.monotonic() + timeout
    try:
        for function in work:
            reading, writing = os.pipe()
            process = os.fork()
            if process == 0:
                os.close(reading)
                _answer(function, writing)
            os.close(writing)
            children.append((process, reading))
        answers = _answers([reading for _, reading in children], end)
    finally:
        for process, reading in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            os.close(reading)
    failures = [text for failed, text in answers if failed]
    if failures:
        # the others fail because of the first one's absence
        own = [text for text in failures if "gloo" not in text.rsplit("\n", 2)[-2]]
        raise RuntimeError(f"the loss failed in a process:\n{(own or failures)[0]}")
    return [answer for _, answer in answers]


def _answers(pipes: Sequence[int], end: float) -> list[tuple[bool, Any]]:
    """What stands in each pipe once it is closed."""
    data = dict.fromkeys(pipes, b"")
    unfinished = set(pipes)
    while unfinished:
        ready, _, _ = select.select(list(unfinished), [], [], max(end - time.monotonic(), 0))
        if not ready:
            waiting = [str(place) for place, pipe in enumerate(pipes) if pipe in unfinished]
            raise TimeoutError(f"no answer from rank {', '.join(waiting)}: a collective that not all ranks reach?")
        for pipe in ready:
            part = os.read(pipe, 1 << 16)
            data[pipe] += part
            if not part:
                unfinished.discard(pipe)
    return [pickle.loads(data[pipe]) if data[pipe] else (True, "the process died\n") for pipe in pipes]


def _answer(function: Callable[[], Any], pipe: int) -> NoReturn:
    """Send back what the function returns, or the traceback of what it raises, and leave."""
    try:
        try:
            answer = (False, function())
        except BaseException:
            answer = (True, traceback.format_exc())
        with os.fdopen(pipe, "wb") as file:
            pickle.dump(answer, file)
        time.sleep(3600)  # a peer may still need this process's sockets: it is killed when all have answered
    finally:
        os._exit(0)


# -- judging


def _compare(ranks: Sequence[Gradients], own: Sequence[Gradients], reference: Gradients, tolerance: float) -> None:
    from dpcheck.verify.judge.compare import Space, Tolerance, difference, relative_error

    space = Space({name: gradient.size for name, gradient in reference.items()}, {})
    flat = [{name: gradient.reshape(-1) for name, gradient in each.items()} for each in (*ranks, *own, reference)]
    vectors = [space.vector(each) for each in flat]
    observed, local, expected = vectors[: len(ranks)], vectors[len(ranks) : -1], vectors[-1]
    judged = difference(space, observed[0], expected, Tolerance(tolerance, tolerance, coarse=True))
    if judged.zero:
        raise AssertionError("all gradients are zero: nothing can be said")
    apart = max(relative_error(each, observed[0]) for each in observed)
    if apart > tolerance:
        raise AssertionError(f"the ranks hold different gradients after the backward (relative error {apart:.2g})")
    if not judged.failed:
        return
    worst = ", ".join(f"{tensor.name} ({tensor.relative:.2g})" for tensor in judged.tensors[:_SHOWN])
    raise AssertionError(
        f"the averaged gradient of {len(ranks)} ranks is not that of one process on the whole batch: "
        f"relative error {judged.relative:.3g}, most in {worst}; {_explained(observed[0], local, expected)}"
    )


def _explained(observed: Any, local: Sequence[Any], expected: Any) -> str:
    """What the observed gradient is, if it is something simple."""
    from dpcheck.verify.judge.compare import factor, fit, relative_error

    scale = factor(observed, expected)
    if scale is not None and scale[1] < _NEAR:
        return f"it is {scale[0]:.6g} times the expected one, with {len(local)} ranks: a factor is wrong, not a weight"
    mean = sum(local) / len(local)
    shares = fit(local, expected)
    if relative_error(observed, mean) < _NEAR and shares is not None and shares.residual < _NEAR:
        weights = ", ".join(f"{share:.4g}" for share in shares.factors)
        return (
            f"it is the plain mean of the ranks' gradients, where one process weighs them by {weights}: "
            "each rank averages over its own targets. Sum the losses, all-reduce the number of targets, and use "
            "loss_sum * world_size / global_count"
        )
    return "no simple explanation fits"
