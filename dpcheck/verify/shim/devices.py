"""Devices: whatever the script puts on a GPU stays on the CPU."""

from __future__ import annotations

import copyreg
from typing import Any

import torch
from torch import nn
from torch.utils._device import DeviceContext

from dpcheck.verify.shim.accelerator import FOR_GPU, Accelerator, is_accelerator
from dpcheck.verify.shim.factories import RANDOM, Factories
from dpcheck.verify.shim.patching import Function, Patches

_CPU = torch.device("cpu")
_REAL_DEVICE = torch.device
_REAL_GENERATOR = torch.Generator
_MOVES = ("cuda", "xpu", "ipu", "mtia")
_DRAWN_IN_PLACE = (
    "uniform_",
    "normal_",
    "bernoulli_",
    "exponential_",
    "random_",
    "log_normal_",
    "cauchy_",
    "geometric_",
)
_TENSOR_TYPES = ("Byte", "Char", "Short", "Int", "Long", "Bool", "Half", "BFloat16", "Float", "Double")


def on_cpu(device: Any) -> Any:
    """The device that is used where the script asks for `device`."""
    return _CPU if device is not None and is_accelerator(device) else device


def install(patches: Patches, accelerator: Accelerator, factories: Factories) -> None:
    _tensors(patches, accelerator, factories)
    patches.wrap(nn.Module, "to", _moving)
    _default_device(patches, accelerator)
    _device_class()
    _generator_class()
    _storages(patches)
    patches.wrap(torch, "load", _loading)


def _tensors(patches: Patches, accelerator: Accelerator, factories: Factories) -> None:
    for owner, name in factories:
        patches.wrap(owner, name, _making)
    patches.wrap_each(torch, RANDOM, lambda original: _drawing(original, accelerator))
    patches.wrap_each(torch.Tensor, _DRAWN_IN_PLACE, lambda original: _drawing_in_place(original, accelerator))
    patches.wrap(torch.Tensor, "to", _moving)
    patches.wrap_each(torch.Tensor, _MOVES, lambda original: _move_tensor)
    patches.replace(torch.Tensor, "pin_memory", lambda self, *args, **kwargs: self)
    patches.replace(torch.Tensor, "is_pinned", lambda self, *args, **kwargs: False)
    patches.replace(torch.Tensor, "record_stream", lambda self, stream: None)


def _making(original: Function) -> Function:
    def make(*args: Any, **kwargs: Any) -> Any:
        if kwargs.get("device") is not None:
            kwargs["device"] = on_cpu(kwargs["device"])
        if kwargs.get("pin_memory"):
            kwargs["pin_memory"] = False
        return original(*args, **kwargs)

    return make


def _drawing(original: Function, accelerator: Accelerator) -> Function:
    """Around `_making`: a draw on a GPU is one of the GPU's generator."""

    def draw(*args: Any, **kwargs: Any) -> Any:
        device = kwargs.get("device")
        on_gpu = accelerator.is_default if device is None else is_accelerator(device)
        if on_gpu and kwargs.get("generator") is None:
            kwargs["generator"] = accelerator.generator
        return original(*args, **kwargs)

    return draw


def _drawing_in_place(original: Function, accelerator: Accelerator) -> Function:
    def draw(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if accelerator.is_default and kwargs.get("generator") is None:
            kwargs["generator"] = accelerator.generator
        return original(self, *args, **kwargs)

    return draw


def _mapped(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """The arguments of `to`: `(device, dtype, …)`, `(dtype, …)` or `(tensor, …)`."""
    if kwargs.get("device") is not None:
        kwargs["device"] = on_cpu(kwargs["device"])
    if args and not isinstance(args[0], (torch.Tensor, torch.dtype)):
        return (on_cpu(args[0]), *args[1:])
    return args


def _moving(original: Function) -> Function:
    def to(self: Any, *args: Any, **kwargs: Any) -> Any:
        args = _mapped(args, kwargs)
        return original(self, *args, **kwargs)

    return to


def _move_tensor(
    self: torch.Tensor, device: Any = None, non_blocking: bool = False, memory_format: Any = torch.preserve_format
) -> torch.Tensor:
    """The tensor itself: `to` of torch would give no copy either to one that is on the device already."""
    return self if memory_format is torch.preserve_format else self.to(memory_format=memory_format)


def _default_device(patches: Patches, accelerator: Accelerator) -> None:
    def constructing(original: Function) -> Function:
        def initialize(self: Any, device: Any) -> None:
            setattr(self, FOR_GPU, is_accelerator(device))
            original(self, on_cpu(device))

        return initialize

    def serving(original: Function) -> Function:
        def torch_function(self: Any, *args: Any, **kwargs: Any) -> Any:
            # The mode is off while it serves a call, and the call may draw.
            by_gpu = getattr(self, FOR_GPU, False)
            accelerator.serving += by_gpu
            try:
                return original(self, *args, **kwargs)
            finally:
                accelerator.serving -= by_gpu

        return torch_function

    patches.wrap(DeviceContext, "__init__", constructing)
    patches.wrap(DeviceContext, "__torch_function__", serving)

    def setting(original: Function) -> Function:
        def set_default_tensor_type(kind: Any) -> None:
            if not isinstance(kind, str):
                kind = f"{kind.__module__}.{kind.__name__}"
            original(kind.replace("torch.cuda.", "torch."))

        return set_default_tensor_type

    patches.wrap(torch, "set_default_tensor_type", setting)


class _LooksLikeDevice(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _REAL_DEVICE)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return subclass is cls or issubclass(subclass, _REAL_DEVICE)


class _Device(metaclass=_LooksLikeDevice):
    """`torch.device`, which without a GPU refuses a bare index."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        if args and isinstance(args[0], int) and not isinstance(args[0], bool):
            return _REAL_DEVICE("cuda", args[0])
        return _REAL_DEVICE(*args, **kwargs)


def _device_class() -> None:
    _Device.__module__, _Device.__qualname__, _Device.__name__ = "torch", "device", "device"
    names: Any = torch
    names.device = _Device
    # A device pickles as a call of torch.device, which must be found under that name.
    copyreg.pickle(_REAL_DEVICE, _reduced)


def _reduced(device: torch.device) -> tuple[Any, tuple[Any, ...]]:
    return _Device, (device.type,) if device.index is None else (device.type, device.index)


class _LooksLikeGenerator(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _REAL_GENERATOR)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return subclass is cls or issubclass(subclass, _REAL_GENERATOR)


class _Generator(metaclass=_LooksLikeGenerator):
    def __new__(cls, device: Any = "cpu") -> Any:
        return _REAL_GENERATOR(on_cpu(device) or _CPU)


def _generator_class() -> None:
    _Generator.__module__, _Generator.__qualname__, _Generator.__name__ = "torch", "Generator", "Generator"
    names: Any = torch
    names.Generator = _Generator


def _storages(patches: Patches) -> None:
    for owner in (torch.UntypedStorage, torch.TypedStorage):
        patches.replace(owner, "cuda", lambda self, *args, **kwargs: self)
        patches.replace(owner, "pin_memory", lambda self, *args, **kwargs: self)
    # After precision: there `torch.FloatTensor` may have become another.
    for kind in _TENSOR_TYPES:
        cpu_type = getattr(torch, f"{kind}Tensor", None)
        if cpu_type is not None:
            patches.replace(torch.cuda, f"{kind}Tensor", cpu_type)


def _loading(original: Function) -> Function:
    def load(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        meta = map_location == "meta" or getattr(map_location, "type", None) == "meta"
        return original(f, "meta" if meta else "cpu", *args, **kwargs)

    return load
