"""The wraps of models in DDP and FSDP: what the parameters and buffers were before, and what the wrap made of them.

Digests are taken of the values in the type that the run computes in, so that they do not depend on when the shim
promotes them. Where a wrap shards, a rank holds a part of each parameter afterwards: its digest "after" is that of the
whole parameter before if the part is the one that was there, and that of the part itself if the wrap has changed it.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from dpcheck.verify.hooks.modules import Models, unwrapped
from dpcheck.verify.hooks.patches import replace_everywhere
from dpcheck.verify.hooks.shares import digest
from dpcheck.verify.recording import Place, Wrap
from dpcheck.verify.session import Session
from dpcheck.verify.shim import importing

_OPTIONS = {
    "ddp": (
        "broadcast_buffers", "find_unused_parameters", "static_graph", "gradient_as_bucket_view", "init_sync",
        "forward_sync_buffers", "skip_all_reduce_unused_params", "mixed_precision", "delay_all_reduce_named_params",
    ),
    "fsdp": (
        "sharding_strategy", "sync_module_states", "use_orig_params", "mixed_precision", "ignored_modules",
        "ignored_states", "device_mesh",
    ),
    "fully_shard": ("reshard_after_forward", "mp_policy", "mesh", "ignored_params", "shard_placement_fn"),
}  # fmt: skip

_CHOSEN = ("broadcast_buffers", "forward_sync_buffers", "sharding_strategy")
"""Of None the wrap makes a default of its own."""

_COPIED = 1 << 31  # bytes: of larger models no copy is made to compare the shards with


@dataclasses.dataclass
class _Begun:
    """A wrap that has not returned: the modules, and their state before it."""

    modules: list[nn.Module]
    prefixes: list[str]
    record: Wrap
    whole: dict[str, torch.Tensor]


class Wraps:
    """Records the wraps of one process, the outermost ones: what they contain was wrapped as a part of them."""

    def __init__(self, session: Session, models: Models) -> None:
        self._session = session
        self._models = models
        self._dtype: torch.dtype = getattr(torch, session.job.dtype)
        self._depth = 0
        self._inner = 0
        self._recorded: list[tuple[Wrap, weakref.ref[nn.Module]]] = []

    def construction(self, kind: Any, original: Callable[..., None]) -> Callable[..., None]:
        """`__init__` of DDP or FSDP."""
        signature = inspect.signature(original)

        @functools.wraps(original)
        def initialize(wrapper: nn.Module, *args: Any, **kwargs: Any) -> None:
            given = self._arguments(signature, (wrapper, *args), kwargs)
            begun = self._begin(kind, [given.get("module")], given)
            self._depth += 1
            try:
                original(wrapper, *args, **kwargs)
            finally:
                self._depth -= 1
            if begun is not None:
                self._end(begun, [wrapper], getattr(wrapper, "process_group", None))

        return initialize

    def sharding(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """`fully_shard`, which changes the modules themselves."""
        signature = inspect.signature(original)

        @functools.wraps(original)
        def fully_shard(*args: Any, **kwargs: Any) -> Any:
            given = self._arguments(signature, args, kwargs)
            module = given.get("module")
            modules = list(module) if isinstance(module, (list, tuple)) else [module]
            begun = self._begin("fully_shard", modules, given)
            self._depth += 1
            try:
                result = original(*args, **kwargs)
            finally:
                self._depth -= 1
            if begun is not None:
                self._end(begun, begun.modules, given.get("mesh"))
            return result

        return fully_shard

    def _arguments(self, signature: inspect.Signature, args: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError:
            return {}  # the call itself will say so
        bound.apply_defaults()
        return dict(bound.arguments)

    def _begin(self, kind: Any, modules: list[Any], given: dict[str, Any]) -> _Begun | None:
        session = self._session
        if session.inside:
            return None
        if self._depth:
            self._inner += 1
            return None
        self._inner = 0
        place = session.here()
        session.event(f"wrap in {kind}", place)
        try:
            with session.looking_away(), torch.no_grad():
                modules = [module for module in modules if isinstance(module, nn.Module)]
                if not modules:
                    return None
                prefixes = [self._models.prefix_of(module) for module in modules]
                whole = self._whole(modules, prefixes)
                options = {name: _plain(given[name]) for name in _OPTIONS[kind] if name in given}
                record = Wrap(kind, int(prefixes[0].partition(".")[0]), place, {}, {}, options=options)
                record.before = {name: digest(tensor) for name, tensor in whole.items()}
                record.buffers_before = self._buffers(modules, prefixes)
                size = sum(tensor.numel() * tensor.element_size() for tensor in whole.values())
                if kind == "ddp" or size > _COPIED:
                    whole = {}
                else:
                    whole = {name: tensor.clone() for name, tensor in whole.items()}
                return _Begun(modules, prefixes, record, whole)
        except Exception as error:
            session.note("hook-failed", f"the state before a wrap was not recorded: {error!r}", place)
            return None

    def _end(self, begun: _Begun, wrapped: list[nn.Module], group: Any) -> None:
        session = self._session
        record = begun.record
        try:
            with session.looking_away(), torch.no_grad():
                record.after = {}
                for module, prefix in zip(wrapped, begun.prefixes, strict=True):
                    for piece in self._models.pieces_of(module, prefix):
                        if piece.holder.is_meta:
                            continue
                        held = piece.of(piece.holder).to(self._dtype)
                        before = begun.whole.get(piece.name)
                        kept = before is not None and torch.equal(before[piece.start : piece.stop], held)
                        record.after[piece.name] = record.before[piece.name] if kept else digest(held)
                        if record.kind != "ddp":
                            record.held[piece.name] = digest(held)
                record.buffers_after = self._buffers(wrapped, begun.prefixes)
                for name in _CHOSEN:
                    if record.options.get(name) == "None":
                        record.options[name] = _plain(getattr(wrapped[0], name, None))
                record.group = _ranks(group)
                inner = self._absorb(record, begun.modules) + self._inner
                if inner:
                    record.options["inner"] = str(inner)
                session.recording.wraps.append(record)
                self._recorded += [(record, weakref.ref(unwrapped(module))) for module in begun.modules]
        except Exception as error:
            session.note("hook-failed", f"the state after a wrap was not recorded: {error!r}", record.place)

    def _whole(self, modules: list[nn.Module], prefixes: list[str]) -> dict[str, torch.Tensor]:
        """The parameters, flattened, that this process holds whole; those that were sharded before are left out."""
        return {
            piece.name: piece.of(piece.holder).to(self._dtype)
            for module, prefix in zip(modules, prefixes, strict=True)
            for piece in self._models.pieces_of(module, prefix)
            if piece.stop - piece.start == torch.Size(piece.shape).numel() and not piece.holder.is_meta
        }

    def _buffers(self, modules: list[nn.Module], prefixes: list[str]) -> dict[str, str]:
        return {
            name: digest(buffer.to(self._dtype) if buffer.is_floating_point() else buffer)
            for module, prefix in zip(modules, prefixes, strict=True)
            for name, buffer in self._models.buffers_of(module, prefix)
            if not buffer.is_meta
        }

    def _absorb(self, record: Wrap, modules: Iterable[nn.Module]) -> int:
        """Make earlier wraps of the same kind inside these modules a part of this one, and count them."""
        contained = {id(unwrapped(found)) for module in modules for found in module.modules()}
        inner: list[Wrap] = []
        for wrap, reference in self._recorded:
            module = reference()
            if wrap.kind == record.kind and module is not None and id(module) in contained:
                if not any(wrap is known for known in inner):
                    inner.append(wrap)
        for wrap in inner:
            record.before |= wrap.before
            record.after |= wrap.after
            record.held |= wrap.held
        drop = {id(wrap) for wrap in inner}
        self._session.recording.wraps[:] = [wrap for wrap in self._session.recording.wraps if id(wrap) not in drop]
        self._recorded = [(wrap, reference) for wrap, reference in self._recorded if id(wrap) not in drop]
        return sum(1 + int(wrap.options.get("inner", "0")) for wrap in inner)

    # -- synchronization switched off

    def forward(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """DDP's forward, which decides whether the backward will average: `no_sync` and the bare attribute alike."""

        @functools.wraps(original)
        def forward(wrapper: Any, *args: Any, **kwargs: Any) -> Any:
            if torch.is_grad_enabled() and not wrapper.require_backward_grad_sync and not self._session.inside:
                self._unsynchronized(self._session.here())
            return original(wrapper, *args, **kwargs)

        return forward

    def no_sync(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """FSDP's `no_sync`."""

        @functools.wraps(original)
        def no_sync(wrapper: Any, *args: Any, **kwargs: Any) -> Any:
            self._unsynchronized(self._session.here())
            return original(wrapper, *args, **kwargs)

        return no_sync

    def set_requires_gradient_sync(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """What `fully_shard` has in place of `no_sync`."""

        @functools.wraps(original)
        def set_requires_gradient_sync(wrapper: Any, requires_gradient_sync: bool, **kwargs: Any) -> Any:
            if not requires_gradient_sync:
                self._unsynchronized(self._session.here())
            return original(wrapper, requires_gradient_sync, **kwargs)

        return set_requires_gradient_sync

    def _unsynchronized(self, place: Place) -> None:
        self._session.note("no-sync", "gradients of this backward stay on their rank until a later one", place)


def _plain(value: Any) -> str:
    """An option as text that is the same in every process."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return str(value)
    if isinstance(value, Iterable) and not dataclasses.is_dataclass(value):
        return f"{len(list(value))} given"
    name = getattr(value, "name", None)
    if isinstance(name, str):
        return name
    return str(value) if dataclasses.is_dataclass(value) else type(value).__name__


def _ranks(group: Any) -> list[int]:
    """The ranks of a process group, or of a device mesh's shard dimension (FSDP shards along the last)."""
    if not dist.is_initialized():
        return []
    if group is not None and hasattr(group, "get_group"):
        group = group.get_group(group.ndim - 1)
    if isinstance(group, tuple):  # HYBRID_SHARD: the group that shards, and the one that replicates
        group = group[0]
    if group is None:
        return list(range(dist.get_world_size()))
    return list(dist.get_process_group_ranks(group))


def install(session: Session) -> None:
    """Watch DDP now, and FSDP once it is imported, which takes two seconds that most scripts need not pay."""
    assert session.models is not None
    wraps = Wraps(session, session.models)
    ddp: Any = nn.parallel.DistributedDataParallel
    ddp.__init__ = wraps.construction("ddp", ddp.__init__)
    ddp.forward = wraps.forward(ddp.forward)

    def fsdp(module: Any) -> None:
        wrapper = module.FullyShardedDataParallel
        wrapper.__init__ = wraps.construction("fsdp", wrapper.__init__)
        wrapper.no_sync = wraps.no_sync(wrapper.no_sync)

    def fully_shard(module: Any) -> None:
        module.FSDPModule.set_requires_gradient_sync = wraps.set_requires_gradient_sync(
            module.FSDPModule.set_requires_gradient_sync
        )
        replace_everywhere([(module.fully_shard, wraps.sharding(module.fully_shard))])

    finder = importing.install()
    finder.adapt("torch.distributed.fsdp.fully_sharded_data_parallel", fsdp)
    finder.adapt("torch.distributed.fsdp._fully_shard._fully_shard", fully_shard)
