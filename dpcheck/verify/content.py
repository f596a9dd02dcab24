"""The content of a sample: a digest by which two ranks' samples are compared, and bytes by which one is handed on.

Equal content gives equal digests, whatever objects hold it: tensors and arrays count by type, shape and values.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import pickle
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import torch

_BYTES = 8
_DEPTH = 12


class _Hash(Protocol):
    def update(self, data: bytes, /) -> None: ...


def digest(value: object) -> str:
    """A digest of the content; raises what pickle raises for an object of an unknown kind that it cannot pickle."""
    state = hashlib.blake2b(digest_size=_BYTES)
    _feed(state, value, _DEPTH)
    return state.hexdigest()


def _feed(state: _Hash, value: Any, depth: int) -> None:
    if isinstance(value, torch.Tensor):
        value = _array(value)
    if isinstance(value, np.ndarray) and value.dtype != object:
        state.update(f"array{value.dtype}{value.shape}".encode())
        state.update(np.ascontiguousarray(value).tobytes())
    elif value is None or isinstance(value, (bool, int, float, complex, str, bytes, np.generic)):
        state.update(f"{type(value).__name__}{value!r};".encode("utf-8", "surrogatepass"))
    elif depth and isinstance(value, Mapping):
        state.update(f"mapping{len(value)}".encode())
        for key, item in value.items():
            _feed(state, key, depth - 1)
            _feed(state, item, depth - 1)
    elif depth and isinstance(value, (list, tuple)):
        state.update(f"sequence{len(value)}".encode())
        for item in value:
            _feed(state, item, depth - 1)
    elif depth and dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            _feed(state, getattr(value, field.name, None), depth - 1)
    elif hasattr(value, "__array_interface__"):
        _feed(state, np.asarray(value), depth)
    elif depth and hasattr(value, "__dict__") and not callable(value):
        _feed(state, vars(value), depth - 1)
    else:
        state.update(dumps(value))


def _array(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    held = tensor.detach()
    if held.layout != torch.strided:
        held = held.to_dense()
    if held.dtype == torch.bfloat16:
        held = held.view(torch.int16)
    return held.contiguous().numpy()


def dumps(value: object) -> bytes:
    """The object's bytes. A tensor brings only its own elements along, not the storage that it is a view of."""
    buffer = io.BytesIO()
    _Pickler(buffer, protocol=5).dump(value)
    return buffer.getvalue()


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        if (
            type(value) in (torch.Tensor, torch.nn.Parameter)
            and value.layout == torch.strided
            and not value.is_quantized
        ):
            if value.dtype.is_complex or value.dtype not in _PLAIN:
                return NotImplemented
            return _tensor, (_array(value), str(value.dtype))
        return NotImplemented


_PLAIN = {
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8,
    torch.uint8, torch.bool,
}  # fmt: skip


def _tensor(array: np.ndarray[Any, Any], dtype: str) -> torch.Tensor:
    tensor = _from_numpy(array.copy())
    return tensor.view(torch.bfloat16) if dtype == "torch.bfloat16" else tensor


_from_numpy = torch.from_numpy  # before the shim makes it promote


def leaves(value: Any, depth: int = _DEPTH) -> list[torch.Tensor]:
    """The tensors inside a batch, in a fixed order."""
    found: list[torch.Tensor] = []
    _collect(value, found, depth)
    return found


def _collect(value: Any, found: list[torch.Tensor], depth: int) -> None:
    if isinstance(value, torch.Tensor):
        found.append(value)
    elif depth and isinstance(value, Mapping):
        for item in value.values():
            _collect(item, found, depth - 1)
    elif depth and isinstance(value, (list, tuple)):
        for item in value:
            _collect(item, found, depth - 1)
    elif depth and _is_record(value):
        for item in list(vars(value).values()):
            _collect(item, found, depth - 1)


def _is_record(value: Any) -> bool:
    """An object of some class that just holds a batch: not a module, a function or a class."""
    return hasattr(value, "__dict__") and not callable(value) and not isinstance(value, type)


def replaced(value: Any, by: list[torch.Tensor]) -> Any:
    """The batch with its tensors, in the order of `leaves`, replaced by those of `by`."""
    return _rebuild(value, iter(by), _DEPTH)


def _rebuild(value: Any, by: Any, depth: int) -> Any:
    if isinstance(value, torch.Tensor):
        return next(by)
    if depth and isinstance(value, Mapping):
        items = {key: _rebuild(item, by, depth - 1) for key, item in value.items()}
        if type(value) is dict:
            return items
        return _refilled(value, items)
    if depth and isinstance(value, (list, tuple)):
        rebuilt = [_rebuild(item, by, depth - 1) for item in value]
        if hasattr(value, "_fields"):
            return type(value)(*rebuilt)
        return type(value)(rebuilt) if type(value) in (list, tuple) else tuple(rebuilt)
    if depth and _is_record(value):
        import copy

        twin = copy.copy(value)
        for name, item in list(vars(value).items()):
            twin.__dict__[name] = _rebuild(item, by, depth - 1)
        return twin
    return value


def _refilled(value: Any, items: dict[Any, Any]) -> Any:
    import copy

    try:
        twin = copy.copy(value)
        for key, item in items.items():
            twin[key] = item
        return twin
    except Exception:
        return items
