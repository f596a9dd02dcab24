"""The collectives that this process enters, in order: the script's, and those of DDP and FSDP beneath it.

Two layers are watched. The functions of `torch.distributed` know their name, their operation and the line that called
them. What enters below them (DDP's reducer lives in C++, a script may call a process group's own methods) is seen by a
kernel put before those of torch's `c10d` operators: it is called for collectives alone and costs nothing elsewhere,
where a dispatch mode would be called for every operator of the model (measured: +70 % on a small step). A collective
is recorded once, by the outermost function that stands for it. `finished` stays False where an exception, or the end
of the process, came before its return.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import pathlib
import sys
import threading
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.distributed import distributed_c10d as c10d

from dpcheck.verify.hooks.patches import replace_everywhere
from dpcheck.verify.recording import Collective, Note
from dpcheck.verify.session import Session

_KEPT = 20_000

_RENAMED = {  # older and newer names of one collective
    "_all_gather_base": "all_gather_into_tensor",
    "all_gather_single": "all_gather_into_tensor",
    "all_gather_single_coalesced": "all_gather_into_tensor_coalesced",
    "all_gather_tensor": "all_gather_into_tensor",
    "_reduce_scatter_base": "reduce_scatter_tensor",
    "reduce_scatter_single": "reduce_scatter_tensor",
    "reduce_scatter_single_coalesced": "reduce_scatter_tensor_coalesced",
}

_SENT = {  # by function of torch.distributed, the parameter that holds what this process sends
    "broadcast": "tensor",
    "all_reduce": "tensor",
    "all_reduce_coalesced": "tensors",
    "reduce": "tensor",
    "all_gather": "tensor",
    "all_gather_into_tensor": "input_tensor",
    "all_gather_single": "input_tensor",
    "_all_gather_base": "input_tensor",
    "all_gather_coalesced": "input_tensor_list",
    "gather": "tensor",
    "scatter": "scatter_list",
    "reduce_scatter": "input_list",
    "reduce_scatter_tensor": "input",
    "reduce_scatter_single": "input",
    "_reduce_scatter_base": "input",
    "all_to_all": "input_tensor_list",
    "all_to_all_single": "input",
    "send": "tensor",
    "isend": "tensor",
    "recv": "tensor",
    "irecv": "tensor",
    "barrier": None,
    "monitored_barrier": None,
    "all_gather_object": None,
    "gather_object": None,
    "broadcast_object_list": None,
    "scatter_object_list": None,
    "send_object_list": None,
    "recv_object_list": None,
    "new_group": None,
}

_FUNCTIONAL = (
    "broadcast all_reduce all_reduce_coalesced all_gather_single all_gather_tensor all_gather_single_coalesced "
    "all_gather_into_tensor_coalesced reduce_scatter_single reduce_scatter_tensor reduce_scatter_single_coalesced "
    "reduce_scatter_tensor_coalesced all_to_all_single"
).split()

# Called by DDP and FSDP or by the script; they wait, and the collectives inside them are recorded one by one.
_WAITING = {
    c10d: ("init_process_group", "batch_isend_irecv"),
    dist: ("_broadcast_coalesced", "_verify_params_across_processes"),
    functional: ("wait_tensor",),
}


@dataclasses.dataclass(frozen=True)
class _Operator:
    """How to read the arguments of an operator of `c10d`: the places of what is sent, of the group, of the root."""

    name: str
    sent: int | None
    group: int
    root: int | None = None


_OPERATORS = {
    "allreduce_": _Operator("all_reduce", 0, 1),
    "allreduce_coalesced_": _Operator("all_reduce_coalesced", 0, 1),
    "broadcast_": _Operator("broadcast", 0, 1, 2),
    "allgather_": _Operator("all_gather", 1, 2),
    "_allgather_base_": _Operator("all_gather_into_tensor", 1, 2),
    "allgather_coalesced_": _Operator("all_gather_coalesced", 1, 2),
    "allgather_into_tensor_coalesced_": _Operator("all_gather_into_tensor_coalesced", 1, 2),
    "reduce_scatter_": _Operator("reduce_scatter", 1, 2),
    "_reduce_scatter_base_": _Operator("reduce_scatter_tensor", 1, 2),
    "reduce_scatter_tensor_coalesced_": _Operator("reduce_scatter_tensor_coalesced", 1, 2),
    "reduce_": _Operator("reduce", 0, 1, 3),
    "gather_": _Operator("gather", 1, 2, 3),
    "scatter_": _Operator("scatter", 1, 2, 3),
    "alltoall_": _Operator("all_to_all", 1, 2),
    "alltoall_base_": _Operator("all_to_all_single", 1, 2),
    "barrier": _Operator("barrier", None, 1),
    "monitored_barrier_": _Operator("monitored_barrier", None, 1),
    "send": _Operator("send", 0, 1, 2),
    "recv_": _Operator("recv", 0, 1, 2),
    "recv_any_source_": _Operator("recv", 0, 1),
}

_OURS = str(pathlib.Path(__file__).parents[2]) + "/"
_TORCH = str(pathlib.Path(torch.__file__).parent) + "/"
_THROUGH = tuple(  # files that stand between a collective and whoever asked for it
    _TORCH + part
    for part in (
        "distributed/distributed_c10d.py", "distributed/c10d_logger.py", "distributed/_functional_collectives",
        "distributed/nn/", "distributed/device_mesh.py", "distributed/utils.py", "autograd/", "_tensor.py", "_ops.py",
        "_library/", "library.py", "utils/_contextlib.py", "_dynamo/", "_compile.py",
    )
)  # fmt: skip
_WRAPPERS = {
    _TORCH + "nn/parallel/": "DDP",
    _TORCH + "distributed/fsdp/": "FSDP",
    _TORCH + "distributed/_composable/": "FSDP",
    _TORCH + "distributed/algorithms/join": "Join",
    _TORCH + "distributed/algorithms/": "DDP",
}
_ENGINE = _TORCH + "autograd/"


@dataclasses.dataclass
class _Outer:
    """A functional collective under way: the first operator beneath it becomes its record."""

    name: str
    operation: str | None
    carrying: bool
    record: Collective | None = None


class _Thread(threading.local):
    hiding = False  # inside a collective that is recorded already
    outer: _Outer | None = None


class Collectives:
    """Records collectives of one process."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._thread = _Thread()
        self._waiting = 0  # depth of functions at whose return what they entered is finished
        self._unfinished: list[Collective] = []
        self._works: dict[int, str] = {}
        self._files: dict[str, str] = {}
        self._total = 0
        self._truncated: Note | None = None
        self._library: Any = None  # the kernels live as long as it does

    # -- the functions of torch.distributed

    def recorded(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        """`original`, a function of torch.distributed, with a record of each call."""
        signature = inspect.signature(original)
        sent = _SENT[name]
        title = _RENAMED.get(name, name)
        thread = self._thread

        @functools.wraps(original)
        def collective(*args: Any, **kwargs: Any) -> Any:
            if self._session.inside or thread.hiding or not dist.is_initialized():
                return original(*args, **kwargs)
            outside = self._session.status.last.inside
            record = self._guarded(lambda: self._called(title, sent, signature, args, kwargs))
            if record is None:
                return original(*args, **kwargs)
            thread.hiding = True
            try:
                result = original(*args, **kwargs)
                record.finished = True
            finally:
                thread.hiding = False
                self._session.event("collective done", inside=outside)
            if isinstance(result, dist.Work):
                self._works[id(result)] = title
            return result

        return collective

    def _called(
        self, name: str, sent: str | None, signature: inspect.Signature, args: Any, kwargs: dict[str, Any]
    ) -> Collective | None:
        bound = signature.bind(*args, **kwargs)
        given = bound.arguments
        group = given.get("group")
        if name == "new_group":
            group = None if not given.get("use_local_synchronization") else group
        elif group is not None and c10d._rank_not_in_group(group):
            return None
        ranks = _ranks(group)
        if name == "new_group" and given.get("use_local_synchronization") and given.get("ranks") is not None:
            ranks = list(given["ranks"])
        tensors = _tensors(given.get(sent)) if sent is not None else []
        if name == "scatter" and not tensors:
            tensors = _tensors(given.get("tensor"))
        by, owner = self._asked_by()
        bound.apply_defaults()
        operation = _operation(bound.arguments.get("op")) if "reduce" in name else None
        # A leaf is a parameter that is made equal by hand, not a value that the loss is computed from.
        carrying = by != "wrapper" and torch.is_grad_enabled() and any(tensor.grad_fn is not None for tensor in tensors)
        return self._enter(name, operation, tensors, ranks, by, owner, _root(bound.arguments, ranks), carrying)

    def functional(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        """`original`, a functional collective: it is recorded by its name once it enters an operator of c10d."""
        title = _RENAMED.get(name, name)
        thread = self._thread

        @functools.wraps(original)
        def collective(*args: Any, **kwargs: Any) -> Any:
            if self._session.inside or thread.hiding or thread.outer is not None:
                return original(*args, **kwargs)
            tensors = _tensors(args[0]) if args else []
            operation = kwargs.get("reduceOp", args[1] if len(args) > 1 else None) if "reduce" in name else None
            carrying = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
            thread.outer = outer = _Outer(title, _operation(operation), carrying)
            outside = self._session.status.last.inside
            try:
                result = original(*args, **kwargs)
            finally:
                thread.outer = None
                thread.hiding = False
                if outer.record is not None:
                    self._session.event("collective done", inside=outside)
            if outer.record is not None:
                outer.record.finished = True
                # Newer versions of torch differentiate these; in older ones the result requires no gradient.
                outer.record.carries_gradient = carrying and not any(t.requires_grad for t in _tensors(result))
            return result

        return collective

    def waiting(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        """`original`, which waits for peers, with word to the conductor while it does."""
        thread = self._thread

        @functools.wraps(original)
        def function(*args: Any, **kwargs: Any) -> Any:
            if self._session.inside or thread.hiding or thread.outer is not None:
                return original(*args, **kwargs)
            outside = self._session.status.last.inside
            self._session.event("collective", self._session.here(), inside=name)
            self._waiting += 1
            try:
                result = original(*args, **kwargs)
                self._settle()
            finally:
                self._waiting -= 1
                self._unfinished.clear()
                self._session.event("collective done", inside=outside)
            return result

        return function

    def wait_of_work(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """`Work.wait`, which is where an asynchronous collective hangs."""

        @functools.wraps(original)
        def wait(work: Any, *args: Any, **kwargs: Any) -> Any:
            name = self._works.pop(id(work), None)
            if name is None or self._session.inside or self._thread.hiding:
                return original(work, *args, **kwargs)
            outside = self._session.status.last.inside
            self._session.event("collective", self._session.here(), inside=f"wait of dist.{name}")
            try:
                return original(work, *args, **kwargs)
            finally:
                self._session.event("collective done", inside=outside)

        return wait

    def backward(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """`torch.autograd.backward`: at its return the reducer has waited for all that it had entered."""

        @functools.wraps(original)
        def backward(*args: Any, **kwargs: Any) -> Any:
            self._waiting += 1
            try:
                result = original(*args, **kwargs)
                self._settle()
            finally:
                self._waiting -= 1
                self._unfinished.clear()
            return result

        return backward

    def _settle(self) -> None:
        for record in self._unfinished:
            record.finished = True

    # -- the operators of c10d

    def see_operators(self) -> None:
        """Put a kernel before those of c10d's operators, at a dispatch key that torch leaves free.

        Every call passes BackendSelect; Autograd and ADInplaceOrView miss tensors that inference mode made.
        """
        after = torch._C._dispatch_keyset_full_after(torch._C.DispatchKey.BackendSelect)
        library: Any = torch.library.Library
        self._library = library("c10d", "IMPL")
        for name, operator in _OPERATORS.items():
            overload = getattr(getattr(torch.ops.c10d, name, None), "default", None)
            if overload is not None:
                kernel = self._kernel(operator, overload, after)
                self._library.impl(name, kernel, "BackendSelect", with_keyset=True)

    def _kernel(self, operator: _Operator, overload: Any, after: Any) -> Callable[..., Any]:
        def kernel(keyset: Any, *args: Any) -> Any:
            if self._session.inside or self._thread.hiding:
                return overload.redispatch(keyset & after, *args)
            outside = self._session.status.last.inside
            record = self._guarded(lambda: self._entered_below(operator, args))
            result = overload.redispatch(keyset & after, *args)
            if record is not None:
                if self._waiting or self._thread.outer is not None:
                    self._unfinished.append(record)
                else:
                    record.finished = True
                    self._session.event("collective done", inside=outside)
            return result

        return kernel

    def _entered_below(self, operator: _Operator, args: Any) -> Collective | None:
        innermost = _innermost(sys._getframe(1))
        if innermost is not None and innermost.f_code.co_name == "_coalescing_manager":
            return None  # the collectives that it coalesces are recorded
        group = args[operator.group]
        if not isinstance(group, dist.ProcessGroup):
            group = dist.ProcessGroup.unbox(group)
        ranks = _ranks(group)
        root = None if operator.root is None else args[operator.root]
        root = ranks[root] if root is not None and 0 <= root < len(ranks) else root
        tensors = _tensors(args[operator.sent]) if operator.sent is not None else []
        outer = self._thread.outer
        by, owner = self._asked_by()
        if outer is None and (innermost is None or innermost.f_code.co_filename.startswith(_ENGINE)):
            by, owner = "wrapper", "DDP"  # called by autograd itself: a hook of the reducer
        name, operation = (operator.name, None) if outer is None else (outer.name, outer.operation)
        record = self._enter(name, operation, tensors, ranks, by, owner, root, False)
        if outer is not None:
            outer.record = record
            self._thread.hiding = True
        return record

    # -- both

    def _enter(
        self,
        name: str,
        operation: str | None,
        tensors: list[torch.Tensor],
        ranks: list[int],
        by: str,
        owner: str,
        root: int | None,
        carrying: bool,
    ) -> Collective:
        session = self._session
        place = session.here()
        if not place.path:
            place = session.status.last.place  # a thread of autograd has no frame of the user's
        first = tensors[0] if tensors else None
        record = Collective(
            name=name,
            operation=operation,
            shape=list(first.shape) if first is not None else None,
            dtype=str(first.dtype).removeprefix("torch.") if first is not None else None,
            group=ranks,
            by=by,
            place=place,
            window=session.window.index,
            bytes=sum(tensor.numel() * tensor.element_size() for tensor in tensors),
            carries_gradient=carrying,
            finished=False,
            root=root,
        )
        self._total += 1
        if self._total <= _KEPT:
            session.recording.collectives.append(record)
        else:
            self._truncate()
        session.event("collective", place, inside=f"{owner}'s {name}" if by == "wrapper" else f"dist.{name}")
        return record

    def _truncate(self) -> None:
        if self._truncated is None:
            self._truncated = Note("collectives-truncated", "")
            self._session.recording.notes.append(self._truncated)
        self._truncated.text = f"only the first {_KEPT} of {self._total} collectives were recorded"

    def _guarded(self, enter: Callable[[], Collective | None]) -> Collective | None:
        try:
            return enter()
        except Exception as error:
            self._session.note("hook-failed", f"a collective was not recorded: {error!r}", self._session.here())
            return None

    def _asked_by(self) -> tuple[str, str]:
        """Who asked for the collective (see `recording.Collective.by`), and the wrapper's name."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            owner = self._owner(frame.f_code.co_filename)
            if owner:
                return (owner, "") if owner in ("script", "library") else ("wrapper", owner)
            frame = frame.f_back
        return "library", ""

    def _owner(self, filename: str) -> str:
        """The name of the wrapper that the file belongs to, "script", "library", or "" where it only passes on."""
        owner = self._files.get(filename)
        if owner is None:
            if filename.startswith((_OURS, *_THROUGH)) or filename == _CONTEXTLIB:
                owner = ""
            elif self._session.places.is_users(filename):
                owner = "script"
            else:
                owner = next((name for part, name in _WRAPPERS.items() if filename.startswith(part)), "library")
            self._files[filename] = owner
        return owner


_CONTEXTLIB = functools.wraps.__code__.co_filename.replace("functools.py", "contextlib.py")


def _innermost(frame: FrameType | None) -> FrameType | None:
    """The nearest frame outside dpcheck."""
    while frame is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    return frame


def _ranks(group: Any) -> list[int]:
    group = c10d._get_default_group() if group is None else group
    try:
        return list(c10d.get_process_group_ranks(group))
    except (KeyError, ValueError):  # a group that torch.distributed did not make
        return list(range(group.size()))


def _tensors(value: Any) -> list[torch.Tensor]:
    """The tensors of an argument: one, a list of them, or a list of lists."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes, dict)):
        return [tensor for item in value for tensor in _tensors(item)]
    return []


def _operation(operation: Any) -> str | None:
    """ "SUM" for ReduceOp.SUM, for its inner enumeration and for "sum"."""
    if operation is None:
        return None
    if isinstance(operation, str):
        return operation.upper()
    return str(getattr(operation, "op", operation)).rpartition(".")[2].upper()


def _root(arguments: dict[str, Any], ranks: list[int]) -> int | None:
    """The global rank that a collective comes from or goes to."""
    for name in ("src", "dst"):
        root = arguments.get(name)
        if isinstance(root, int):
            return root
        within = arguments.get(f"group_{name}")
        if isinstance(within, int) and 0 <= within < len(ranks):
            return ranks[within]
    return None


def install(session: Session) -> None:
    """Watch the functions of torch.distributed wherever they were imported, and the operators of c10d."""
    collectives = Collectives(session)
    wrappers: list[tuple[Callable[..., Any], Callable[..., Any]]] = []

    def wrap(module: Any, name: str, by: Callable[[str, Callable[..., Any]], Callable[..., Any]]) -> None:
        original = getattr(module, name, None)
        if original is not None:
            wrappers.append((original, by(name, original)))

    for name in _SENT:
        wrap(c10d, name, collectives.recorded)
    for name in _FUNCTIONAL:
        wrap(functional, name, collectives.functional)
        wrap(functional, f"{name}_autograd", collectives.functional)
    for module, names in _WAITING.items():
        for name in names:
            wrap(module, name, collectives.waiting)
    replace_everywhere(wrappers)
    work: Any = dist.Work
    work.wait = collectives.wait_of_work(work.wait)
    autograd: Any = torch.autograd
    autograd.backward = collectives.backward(autograd.backward)
    try:
        collectives.see_operators()
    except (AttributeError, RuntimeError, TypeError) as error:
        session.note("collectives-unseen", f"the collectives of DDP's reducer are not seen by this torch: {error}")
