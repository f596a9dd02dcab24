"""`torch.cuda` and `torch.accelerator` without a GPU: what asks is answered, what acts does nothing."""

from __future__ import annotations

import collections
import time
import types
from collections.abc import Callable, Sequence
from typing import Any

import torch

from dpcheck.verify.session import Session
from dpcheck.verify.shim.accelerator import Accelerator, index_of
from dpcheck.verify.shim.patching import Patches

_MEMORY = 80 << 30
_NAME = "dpcheck (CPU)"
_CAPABILITY = (8, 0)

_NOTHING = (
    "synchronize empty_cache ipc_collect init _lazy_init _check_capability _sleep set_stream _set_stream_by_id "
    "reset_peak_memory_stats reset_max_memory_allocated reset_max_memory_cached reset_accumulated_memory_stats "
    "reset_peak_host_memory_stats reset_accumulated_host_memory_stats set_per_process_memory_fraction "
    "set_sync_debug_mode check_error change_current_allocator empty_host_cache"
).split()
_NOTHING_ELSEWHERE = ("empty_host_cache",)
"""Of `torch.accelerator` alone."""
_ZERO = (
    "memory_allocated max_memory_allocated memory_reserved max_memory_reserved memory_cached max_memory_cached "
    "utilization memory_usage temperature power_draw clock_rate device_memory_used get_sync_debug_mode"
).split()
_MEMORY_NOTHING = ("_record_memory_history", "_dump_snapshot", "_save_segment_usage", "_save_memory_usage")
_NVTX_NOTHING = ("range_push", "range_pop", "range_start", "range_end", "mark")


def install(session: Session, patches: Patches, accelerator: Accelerator) -> None:
    _answers(patches, accelerator)
    _streams(patches)
    _random(patches, accelerator)
    _accelerator_module(patches, accelerator)
    _memory(patches)
    _graphs(session, patches)


def _constant(value: object) -> Callable[..., Any]:
    return lambda *args, **kwargs: value


def _each(patches: Patches, owner: object, names: Sequence[str], value: object) -> None:
    """A function of its own for every name: torch keeps tables by function."""
    for name in names:
        patches.replace(owner, name, _constant(value))


def _answers(patches: Patches, accelerator: Accelerator) -> None:
    cuda = torch.cuda

    def set_device(device: Any) -> None:
        index = index_of(device)
        if index is not None and index >= 0:
            accelerator.current = index

    def properties(device: Any = None) -> types.SimpleNamespace:
        return types.SimpleNamespace(
            name=_NAME,
            major=_CAPABILITY[0],
            minor=_CAPABILITY[1],
            total_memory=_MEMORY,
            multi_processor_count=108,
            is_integrated=0,
            is_multi_gpu_board=0,
            gcnArchName="",
            warp_size=32,
            max_threads_per_multi_processor=2048,
            regs_per_multiprocessor=65536,
            shared_memory_per_block=49152,
            L2_cache_size=40 << 20,
            uuid="",
        )

    patches.replace(cuda, "is_available", lambda: accelerator.is_seen())
    patches.replace(cuda, "device_count", lambda: accelerator.count if accelerator.is_seen() else 0)
    patches.replace(cuda, "is_bf16_supported", lambda *args, **kwargs: accelerator.is_seen())
    patches.replace(cuda, "is_tf32_supported", lambda: accelerator.is_seen())
    # A script that starts processes asks whether CUDA was used before it forks: it was not.
    patches.replace(cuda, "is_initialized", _constant(False))
    patches.replace(cuda, "set_device", set_device)
    patches.replace(cuda, "current_device", lambda: accelerator.current)
    patches.replace(cuda, "get_device_properties", properties)
    patches.replace(cuda, "get_device_name", _constant(_NAME))
    patches.replace(cuda, "get_device_capability", _constant(_CAPABILITY))
    patches.replace(cuda, "can_device_access_peer", _constant(False))
    patches.replace(cuda, "get_arch_list", lambda: ["sm_80"])
    patches.replace(cuda, "get_gencode_flags", _constant(""))
    patches.replace(cuda, "cudart", _Runtime)
    patches.replace(cuda, "device", _device_context(accelerator, index_of))
    patches.replace(cuda, "device_of", _device_context(accelerator, lambda tensor: None))
    _each(patches, cuda, _NOTHING, None)
    _each(patches, torch.cuda.nvtx, _NVTX_NOTHING, 0)
    patches.replace(torch.cuda.nccl, "version", _constant((2, 21, 5)))


class _Runtime:
    """`torch.cuda.cudart()`: every function succeeds."""

    def cudaMemGetInfo(self, device: Any = None) -> tuple[int, int]:
        return _MEMORY, _MEMORY

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(name)
        return _constant(0)


def _device_context(accelerator: Accelerator, index: Callable[[Any], int | None]) -> type:
    class device:
        """`with torch.cuda.device(…)`: makes it current."""

        def __init__(self, device: Any) -> None:
            chosen = index(device)
            self.idx = accelerator.current if chosen is None or chosen < 0 else chosen
            self.prev_idx = -1

        def __enter__(self) -> None:
            self.prev_idx, accelerator.current = accelerator.current, self.idx

        def __exit__(self, *exception: object) -> None:
            accelerator.current = self.prev_idx

    return device


class Event:
    """A moment, taken when it is recorded: CPU code is done when it returns."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.moment = time.perf_counter()
        self.device = torch.device("cuda", 0)
        self.event_id = self.cuda_event = 0

    def record(self, stream: Any = None) -> None:
        self.moment = time.perf_counter()

    def wait(self, stream: Any = None) -> None:
        pass

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, end_event: Event) -> float:
        return (end_event.moment - self.moment) * 1000

    @classmethod
    def from_ipc_handle(cls, device: Any, handle: Any) -> Event:
        return cls()


class Stream:
    """A stream on which everything is done at once."""

    def __init__(self, device: Any = None, priority: int = 0, **kwargs: Any) -> None:
        self.device = torch.device("cuda", index_of(device) or 0)
        self.device_index = self.device.index
        self.priority = priority
        self.stream_id = self.cuda_stream = 0

    def wait_event(self, event: Any) -> None:
        pass

    def wait_stream(self, stream: Any) -> None:
        pass

    def record_event(self, event: Any = None) -> Any:
        event = Event() if event is None else event
        event.record(self)
        return event

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        pass

    def is_capturing(self) -> bool:
        return False

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and other.device == self.device

    def __hash__(self) -> int:
        return hash(self.device)


class _StreamContext:
    def __init__(self, stream: Any = None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        pass


def _streams(patches: Patches) -> None:
    cuda = torch.cuda
    patches.replace(cuda, "Stream", Stream)
    patches.replace(cuda, "ExternalStream", Stream)
    patches.replace(cuda, "Event", Event)
    patches.replace(cuda, "StreamContext", _StreamContext)
    patches.replace(cuda, "stream", lambda stream: _StreamContext(stream))
    patches.replace(cuda, "current_stream", lambda device=None: Stream(device))
    patches.replace(cuda, "default_stream", lambda device=None: Stream(device))
    patches.replace(cuda, "is_current_stream_capturing", _constant(False))
    # The classes of any device, which need one.
    patches.replace(torch, "Stream", Stream)
    patches.replace(torch, "Event", Event)


def _random(patches: Patches, accelerator: Accelerator) -> None:
    generator = accelerator.generator

    def manual_seed(seed: int) -> None:
        generator.manual_seed(int(seed))

    def seed() -> None:
        generator.seed()

    def set_state(state: torch.Tensor, device: Any = None) -> None:
        if state.numel():
            generator.set_state(state)

    def set_states(states: Sequence[torch.Tensor]) -> None:
        if states:
            set_state(states[0])

    cuda = torch.cuda
    for name in ("manual_seed", "manual_seed_all"):
        patches.replace(cuda, name, _copied(manual_seed))
    for name in ("seed", "seed_all"):
        patches.replace(cuda, name, _copied(seed))
    patches.replace(cuda, "initial_seed", generator.initial_seed)
    patches.replace(cuda, "get_rng_state", lambda device="cuda": generator.get_state())
    patches.replace(cuda, "set_rng_state", set_state)
    patches.replace(cuda, "get_rng_state_all", lambda: [generator.get_state() for _ in range(accelerator.count)])
    patches.replace(cuda, "set_rng_state_all", set_states)
    names: Any = cuda
    names.default_generators = _Generators(accelerator)


class _Generators(Sequence[torch.Generator]):
    """`torch.cuda.default_generators`: as many as devices, which are counted when asked for."""

    def __init__(self, accelerator: Accelerator) -> None:
        self._accelerator = accelerator

    def __len__(self) -> int:
        return self._accelerator.count

    def __getitem__(self, index: Any) -> Any:
        return [self._accelerator.generator][0 if isinstance(index, int) else index]


def _copied(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **kwargs: function(*args, **kwargs)


def _memory(patches: Patches) -> None:
    cuda = torch.cuda
    _each(patches, cuda, _ZERO, 0)
    _each(patches, cuda.memory, _MEMORY_NOTHING, None)
    patches.replace(cuda, "mem_get_info", _constant((_MEMORY, _MEMORY)))
    for name in ("memory_stats", "memory_stats_as_nested_dict", "host_memory_stats"):
        patches.replace(cuda, name, lambda *args, **kwargs: collections.defaultdict(int))
    patches.replace(cuda, "memory_summary", lambda *args, **kwargs: "")
    patches.replace(cuda, "memory_snapshot", lambda *args, **kwargs: [])
    patches.replace(cuda.memory, "_snapshot", lambda *args, **kwargs: {"segments": [], "device_traces": []})
    patches.replace(cuda, "list_gpu_processes", lambda *args, **kwargs: "")


def _graphs(session: Session, patches: Patches) -> None:
    def make_graphed_callables(callables: Any, sample_args: Any = None, *args: Any, **kwargs: Any) -> Any:
        session.note("compile", "CUDA graphs were not made: the functions run as they are", session.here())
        return callables

    patches.replace(torch.cuda, "make_graphed_callables", make_graphed_callables)
    patches.replace(torch.cuda, "graph_pool_handle", _constant((0, 0)))


def _accelerator_module(patches: Patches, accelerator: Accelerator) -> None:
    module = getattr(torch, "accelerator", None)
    if module is None:
        return

    def current_accelerator(check_available: bool = False) -> torch.device | None:
        return torch.device("cuda") if accelerator.is_seen() else None

    patches.replace(module, "is_available", lambda: accelerator.is_seen())
    patches.replace(module, "device_count", lambda: accelerator.count if accelerator.is_seen() else 0)
    patches.replace(module, "current_accelerator", current_accelerator)
    patches.replace(module, "device_index", _device_context(accelerator, index_of))
    patches.replace(module, "current_stream", lambda device=None: Stream(device))
    patches.replace(module, "get_memory_info", _constant((_MEMORY, _MEMORY)))
    patches.replace(module, "get_device_capability", lambda device=None: {"supported_dtypes": set()})
    patches.replace(module, "memory_stats", lambda *args, **kwargs: collections.defaultdict(int))
    for name in ("current_device_index", "current_device_idx"):
        patches.replace(module, name, lambda: accelerator.current)
    for name in ("set_device_index", "set_device_idx"):
        patches.replace(module, name, lambda device: torch.cuda.set_device(device))
    _each(patches, module, _NOTHING, None)
    _each(patches, module, _ZERO, 0)
