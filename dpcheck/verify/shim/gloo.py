"""What gloo cannot do, in some or in all versions of torch, made of what it can.

`ReduceOp.AVG` and `PREMUL_SUM` scale before they sum, as nccl does for floating point.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from dpcheck.verify.shim.importing import AdaptingFinder
from dpcheck.verify.shim.patching import Function, Patches

_IN_PLACE = ("all_reduce", "all_reduce_coalesced")
_SCATTERING = ("reduce_scatter", "reduce_scatter_tensor", "_reduce_scatter_base", "reduce_scatter_single")


def install(patches: Patches, finder: AdaptingFinder) -> None:
    for name, emulation in _EMULATIONS.items():
        patches.wrap(distributed_c10d, name, _falling_back_on(emulation))
    factors = _Factors()
    patches.wrap(dist, "_make_nccl_premul_sum", factors.making)
    patches.wrap_each(distributed_c10d, _IN_PLACE, factors.reducing_in_place)
    patches.wrap_each(distributed_c10d, _SCATTERING, factors.scattering)
    patches.wrap(distributed_c10d, "reduce", factors.reducing)
    patches.wrap(distributed_c10d, "all_gather", _gathering)
    patches.wrap(distributed_c10d, "all_to_all", _exchanging)
    patches.replace(distributed_c10d, "_coalescing_manager", _one_by_one)
    finder.adapt("torch.distributed._functional_collectives", lambda module: _functional(patches, module))
    finder.adapt("torch.distributed.nn.functional", _differentiable)


class Done:
    """The handle of a collective that is over."""

    def __init__(self, result: Any = None) -> None:
        self._result = result

    def wait(self, timeout: Any = None) -> bool:
        return True

    def is_completed(self) -> bool:
        return True

    def is_success(self) -> bool:
        return True

    def result(self) -> Any:
        return self._result

    def get_future(self) -> Any:
        future: Any = torch.futures.Future()
        future.set_result(self._result)
        return future


# -- operations that multiply


class _Factors:
    """Reductions that multiply before they sum."""

    def __init__(self) -> None:
        self._of_operation: dict[int, tuple[Any, float]] = {}  # older versions of torch keep the factor to themselves

    def making(self, original: Function) -> Function:
        def make(factor: Any) -> Any:
            operation = original(factor)
            self._of_operation[id(operation)] = (operation, float(factor))
            return operation

        return make

    def _of(self, arguments: dict[str, Any]) -> float | None:
        """By how much the reduction multiplies; None where it is of another kind."""
        operation = arguments.get("op")
        if operation is None or distributed_c10d._rank_not_in_group(arguments.get("group")):
            return None
        if operation == dist.ReduceOp.AVG:
            return 1 / dist.get_world_size(arguments.get("group"))
        if operation == dist.ReduceOp.PREMUL_SUM:
            known = self._of_operation.get(id(operation))
            return known[1] if known is not None else float(operation.factor)
        return None

    def reducing_in_place(self, original: Function) -> Function:
        signature = inspect.signature(original)
        name = next(iter(signature.parameters))

        def reduce(*args: Any, **kwargs: Any) -> Any:
            arguments = signature.bind(*args, **kwargs).arguments
            factor = self._of(arguments)
            if factor is None:
                return original(*args, **kwargs)
            arguments["op"] = dist.ReduceOp.SUM
            tensors = _as_list(arguments[name])
            if not _are_whole(tensors):
                with torch.no_grad():
                    for tensor in tensors:
                        tensor.mul_(factor)
                return original(**arguments)
            asynchronous = arguments.pop("async_op", False)
            original(**arguments)
            _divide(tensors, factor)
            return Done(tensors) if asynchronous else None

        return reduce

    def scattering(self, original: Function) -> Function:
        signature = inspect.signature(original)
        output_name, input_name, *_ = signature.parameters

        def reduce_scatter(*args: Any, **kwargs: Any) -> Any:
            arguments = signature.bind(*args, **kwargs).arguments
            factor = self._of(arguments)
            if factor is None:
                return original(*args, **kwargs)
            arguments["op"] = dist.ReduceOp.SUM
            inputs = arguments[input_name]
            if not _are_whole(_as_list(inputs)):
                with torch.no_grad():
                    scaled = [tensor * factor for tensor in _as_list(inputs)]
                arguments[input_name] = scaled if isinstance(inputs, (list, tuple)) else scaled[0]
                return original(**arguments)
            asynchronous = arguments.pop("async_op", False)
            original(**arguments)
            _divide([arguments[output_name]], factor)
            return Done() if asynchronous else None

        return reduce_scatter

    def reducing(self, original: Function) -> Function:
        """Only the destination's tensor is written."""
        signature = inspect.signature(original)

        def reduce(*args: Any, **kwargs: Any) -> Any:
            arguments = signature.bind(*args, **kwargs).arguments
            factor = self._of(arguments)
            if factor is None:
                return original(*args, **kwargs)
            tensor = arguments["tensor"]
            whole = _are_whole([tensor])
            asynchronous = arguments.pop("async_op", False)
            with torch.no_grad():
                arguments["tensor"] = reduced = tensor.clone() if whole else tensor * factor
                arguments["op"] = dist.ReduceOp.SUM
                original(**arguments)
                if whole:
                    _divide([reduced], factor)
                if _is_destination(arguments):
                    tensor.copy_(reduced)
            return Done([tensor]) if asynchronous else None

        return reduce


def _as_list(value: Any) -> list[torch.Tensor]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _are_whole(tensors: Sequence[torch.Tensor]) -> bool:
    return not any(tensor.is_floating_point() or tensor.is_complex() for tensor in tensors)


def _divide(tensors: Sequence[torch.Tensor], factor: float) -> None:
    """Of whole numbers the sum is divided, and truncated."""
    for tensor in tensors:
        tensor.div_(round(1 / factor), rounding_mode="trunc")


def _is_destination(arguments: dict[str, Any]) -> bool:
    if arguments.get("group_dst") is not None:
        return bool(dist.get_rank(arguments.get("group")) == arguments["group_dst"])
    return bool(dist.get_rank() == arguments.get("dst"))


# -- collectives that gloo lacks


def _falling_back_on(emulate: Callable[..., Any]) -> Callable[[Function], Function]:
    def make(original: Function) -> Function:
        def collective(*args: Any, **kwargs: Any) -> Any:
            try:
                return original(*args, **kwargs)
            except RuntimeError as error:
                # Said on every rank alike, before anything was sent.
                if "support" not in str(error):
                    raise
            asynchronous = signature.bind(*args, **kwargs).arguments.get("async_op", False)
            with torch.no_grad():
                emulate(*args, **kwargs)
            return Done() if asynchronous else None

        signature = inspect.signature(original)
        return collective

    return make


def _reduce_scatter(output: Any, input_list: Any, op: Any = None, group: Any = None, async_op: bool = False) -> None:
    operation = dist.ReduceOp.SUM if op is None else op
    rank = dist.get_rank(group)
    for destination, tensor in enumerate(input_list):
        reduced = tensor.clone()
        dist.all_reduce(reduced, operation, group)
        if destination == rank:
            output.copy_(reduced)


def _reduce_scatter_tensor(output: Any, input: Any, op: Any = None, group: Any = None, async_op: bool = False) -> None:
    parts = [part.reshape(output.shape) for part in input.reshape(-1).chunk(dist.get_world_size(group))]
    _reduce_scatter(output, parts, op, group)


def _all_gather_tensor(output_tensor: Any, input_tensor: Any, group: Any = None, async_op: bool = False) -> None:
    parts = [torch.empty_like(input_tensor).reshape(-1) for _ in range(dist.get_world_size(group))]
    dist.all_gather(parts, input_tensor.reshape(-1), group)
    output_tensor.copy_(torch.cat(parts).reshape(output_tensor.shape))


def _all_to_all(outputs: Any, inputs: Any, group: Any = None) -> None:
    received = [output.numel() for output in outputs]
    given = [tensor.numel() for tensor in inputs]
    flat = torch.cat([tensor.reshape(-1) for tensor in inputs])
    gathered = flat.new_empty(sum(received))
    dist.all_to_all_single(gathered, flat, received, given, group)
    start = 0
    for output, size in zip(outputs, received, strict=True):
        output.copy_(gathered[start : start + size].reshape(output.shape))
        start += size


_EMULATIONS: dict[str, Callable[..., Any]] = {
    "reduce_scatter": _reduce_scatter,
    "reduce_scatter_tensor": _reduce_scatter_tensor,
    "_reduce_scatter_base": _reduce_scatter_tensor,
    "all_gather_into_tensor": _all_gather_tensor,
    "_all_gather_base": _all_gather_tensor,
}


def _gathering(original: Function) -> Function:
    """Tensors of different sizes: nccl takes them, gloo wants one size."""

    def all_gather(tensor_list: Any, tensor: Any, group: Any = None, async_op: bool = False) -> Any:
        if len({output.shape for output in tensor_list}) < 2 or distributed_c10d._rank_not_in_group(group):
            return original(tensor_list, tensor, group, async_op)
        ranks = dist.get_process_group_ranks(dist.group.WORLD if group is None else group)
        with torch.no_grad():
            for rank, output in zip(ranks, tensor_list, strict=True):
                part = tensor.contiguous() if rank == dist.get_rank() else torch.empty_like(output).contiguous()
                dist.broadcast(part, rank, group)
                output.copy_(part)
        return Done(list(tensor_list)) if async_op else None

    return all_gather


def _exchanging(original: Function) -> Function:
    """As one flat exchange, whose parts may differ in size; gloo's own wants one size, where it has any."""

    def all_to_all(output_tensor_list: Any, input_tensor_list: Any, group: Any = None, async_op: bool = False) -> Any:
        if distributed_c10d._rank_not_in_group(group):
            return original(output_tensor_list, input_tensor_list, group, async_op)
        with torch.no_grad():
            _all_to_all(output_tensor_list, input_tensor_list, group)
        return Done(list(output_tensor_list)) if async_op else None

    return all_to_all


@contextlib.contextmanager
def _one_by_one(group: Any = None, device: Any = None, async_ops: bool = False) -> Iterator[_Handle]:
    """In place of torch's manager, which has gloo do together what it may only do apart."""
    yield _Handle()


class _Handle:
    def __init__(self) -> None:
        self._works: list[Any] = []

    def append(self, work: Any) -> None:
        self._works.append(work)

    def wait(self) -> None:
        for work in self._works:
            work.wait()


# -- other ways to a collective


def _functional(patches: Patches, module: ModuleType) -> None:
    """Functional collectives name their operation."""

    def size_of(group: Any) -> int:
        if hasattr(module, "_resolve_group_name"):
            group = module._resolve_group_name(group)
            return int(distributed_c10d._get_group_size_by_name(group))
        return int(module._expand_group(group)[2])

    def averaging(original: Function) -> Function:
        signature = inspect.signature(original)
        input_name = next(iter(signature.parameters))

        def reduce(*args: Any, **kwargs: Any) -> Any:
            arguments = signature.bind(*args, **kwargs).arguments
            if str(arguments["reduceOp"]).lower() != "avg":
                return original(*args, **kwargs)
            inputs = arguments[input_name]
            factor = 1 / size_of(arguments["group"])
            scaled = [tensor * factor for tensor in _as_list(inputs)]
            arguments[input_name] = scaled if isinstance(inputs, (list, tuple)) else scaled[0]
            arguments["reduceOp"] = "sum"
            return original(**arguments)

        return reduce

    for name in (
        "all_reduce", "all_reduce_coalesced", "reduce_scatter_tensor", "reduce_scatter_tensor_coalesced",
        "reduce_scatter_tensor_autograd",
    ):  # fmt: skip
        patches.wrap(module, name, averaging)


def _differentiable(module: ModuleType) -> None:
    """The gradient of an all_gather into one tensor, which torch has for nccl alone."""

    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[None, torch.Tensor, None]:
        rows = gradient.shape[0] // dist.get_world_size(ctx.group)
        own = gradient.new_empty((rows, *gradient.shape[1:]))
        dist.reduce_scatter_tensor(own, gradient.contiguous(), group=ctx.group)
        return None, own, None

    function = getattr(module, "_AllGatherBase", None)
    if function is not None:
        function.backward = staticmethod(backward)
