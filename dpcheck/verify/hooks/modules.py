"""The models of the script: its outermost modules, and names for their parameters that do not depend on wrappers.

A model is numbered in the order in which the outermost modules were constructed, and a parameter is called
`<number>.<path>`: "0.encoder.weight". DDP, FSDP, torch.compile and checkpoint wrappers are looked through, so that the
names are the same on every rank and in the reference, whether or not the script wraps its model there.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from dpcheck.verify.hooks.shares import Piece, flat_pieces, pieces
from dpcheck.verify.recording import Model
from dpcheck.verify.session import Session

_INNER = {  # the attribute in which a wrapper holds what it wraps, by class name
    "DistributedDataParallel": "module",
    "DataParallel": "module",
    "OptimizedModule": "_orig_mod",
    "FullyShardedDataParallel": "_fsdp_wrapped_module",
    "CheckpointWrapper": "_checkpoint_wrapped_module",
    "OffloadWrapper": "_checkpoint_wrapped_module",
}


def unwrapped(module: nn.Module) -> nn.Module:
    """The module inside DDP, FSDP and other wrappers."""
    while True:
        inner = _inner(module)
        if inner is None:
            return module
        module = inner


def _inner(module: nn.Module) -> nn.Module | None:
    for kind in type(module).__mro__:
        attribute = _INNER.get(kind.__name__)
        if attribute is not None and kind.__module__.startswith("torch."):
            found: nn.Module | None = module._modules.get(attribute)
            return found
    return None


class Models:
    """All modules alive in this process, and the numbers and names that follow from them."""

    def __init__(self) -> None:
        self._alive: list[weakref.ref[nn.Module]] = []
        self._numbers: dict[int, int] = {}
        self._numbered: list[weakref.ref[nn.Module]] = []
        self._known: set[int] = set()
        self._wrapped: dict[int, weakref.ref[nn.Module]] = {}  # the outermost wrapper of a model, if it has one
        self._losses: list[weakref.ref[nn.Module]] = []

    def saw(self, module: nn.Module) -> None:
        """Called once for each module as it is constructed, copied or, at the latest, called."""
        if id(module) in self._known:
            return
        identity = id(module)
        self._known.add(identity)
        self._alive.append(weakref.ref(module, lambda _: self._known.discard(identity)))

    def took_part(self, module: nn.Module) -> None:
        """The loss depends on what this module without parameters made: its buffers belong to the state."""
        if not any(reference() is module for reference in self._losses) and next(module.buffers(), None) is not None:
            self._losses.append(weakref.ref(module))

    def bypasses(self, module: nn.Module) -> bool:
        """Whether a call of this module, made from outside all others, goes past the DDP that wraps it."""
        if _inner(module) is not None:
            return False
        wrappers = [found for reference in self._alive if isinstance(found := reference(), DistributedDataParallel)]
        return any(module is part for wrapper in wrappers for part in wrapper.modules())

    def roots(self) -> list[nn.Module]:
        """The outermost modules that hold parameters, wrappers looked through, in the order of their numbers."""
        outermost = self._outermost()
        for module in outermost:
            self._number(module)
        return sorted(outermost, key=lambda module: self._numbers[id(module)])

    @property
    def built(self) -> int:
        """How many outermost modules there are by now; it numbers none of them, since they may still become parts."""
        return len(self._outermost())

    def _outermost(self) -> list[nn.Module]:
        """In the order of construction."""
        modules = [module for reference in self._alive if (module := reference()) is not None]
        if len(modules) < len(self._alive) // 2:
            self._alive = [reference for reference in self._alive if reference() is not None]
        children = {id(child) for module in modules for child in module._modules.values() if child is not None}
        outermost: dict[int, nn.Module] = {}
        for module in modules:
            if id(module) not in children and next(module.parameters(), None) is not None:
                inner = unwrapped(module)
                outermost[id(inner)] = inner
                self._wrapped[id(inner)] = weakref.ref(module)
        order = {id(module): place for place, module in enumerate(modules)}
        return sorted(outermost.values(), key=lambda module: order.get(id(module), len(order)))

    def number_of(self, module: nn.Module) -> int:
        """The number of the model that the module is or wraps."""
        inner = unwrapped(module)
        self.saw(inner)
        return self._number(inner)

    def prefix_of(self, module: nn.Module) -> str:
        """What the names of the module's parameters begin with: the number of its model and its path there."""
        inner = unwrapped(module)
        for root in self.roots():
            for path, found in walk(root):
                if found is inner:
                    return f"{self._number(root)}.{path}"
        return f"{self.number_of(module)}."

    def pieces(self) -> list[Piece]:
        """What this process holds of each parameter of the models."""
        return [piece for outermost in self._wrappers() for piece in self.pieces_of(outermost)]

    def _wrappers(self) -> list[nn.Module]:
        """The models with what they are wrapped in: FSDP1 keeps parameters in a flat one that the wrapper holds."""
        return [self._wrapped[id(root)]() or root for root in self.roots()]

    def sharded(self) -> bool:
        """Whether FSDP manages some parameters, so that this process may hold only its part of them."""
        modules = [module for outermost in self._wrappers() for _, module in walk(outermost)]
        parameters = [parameter for module in modules for parameter in module._parameters.values()]
        cut = any(hasattr(parameter, "full_tensor") for parameter in parameters)
        return cut or any(_flat(module) is not None for module in modules)

    def pieces_of(self, root: nn.Module, prefix: str | None = None) -> Iterator[Piece]:
        """The pieces below a module, by default an outermost one, their names beginning with `prefix`."""
        prefix = f"{self._number(unwrapped(root))}." if prefix is None else prefix
        seen: set[int] = set()  # parameters told of already: tied ones, and those inside a flat parameter
        for path, module in walk(root):
            flat = _flat(module)
            if flat is not None:
                seen.update(id(original) for original in flat._params or ())
                yield from flat_pieces(prefix + path, flat)
            for name, parameter in module._parameters.items():
                if parameter is not None and id(parameter) not in seen and not hasattr(parameter, "_fqns"):
                    seen.add(id(parameter))
                    yield from pieces(prefix + path + name, parameter)

    def buffers(self, *, saved: bool = False) -> dict[str, torch.Tensor]:
        """The buffers of the models by name; `saved`, without those that no state_dict holds, which are mere caches."""
        losses = [module for reference in self._losses if (module := reference()) is not None]
        roots = [*self.roots(), *losses]
        return {name: buffer for root in roots for name, buffer in self.buffers_of(root, saved=saved)}

    def buffers_of(
        self, root: nn.Module, prefix: str | None = None, *, saved: bool = False
    ) -> Iterator[tuple[str, torch.Tensor]]:
        prefix = f"{self._number(unwrapped(root))}." if prefix is None else prefix
        for path, module in walk(root):
            for name, buffer in module._buffers.items():
                if buffer is not None and not (saved and name in module._non_persistent_buffers_set):
                    yield prefix + path + name, buffer

    def describe(self) -> list[Model]:
        """The models as the recording lists them."""
        wrapped = {id(unwrapped(module)) for reference in self._alive if (module := reference()) and _inner(module)}
        return [
            Model(type(root).__name__, id(root) in wrapped, sum(p.numel() for p in root.parameters()))
            for root in self.roots()
        ]

    def _number(self, module: nn.Module) -> int:
        number = self._numbers.get(id(module))
        if number is None or self._numbered[number]() is not module:
            number = self._numbers[id(module)] = len(self._numbered)
            self._numbered.append(weakref.ref(module))
        return number


def _flat(module: nn.Module) -> Any:
    """FSDP1's flat parameter, where this module manages one."""
    return getattr(module, "_flat_param", None) if vars(module).get("_handle") is not None else None


def walk(root: nn.Module, path: str = "", seen: set[int] | None = None) -> Iterator[tuple[str, nn.Module]]:
    """The modules from `root` down, each with the prefix of its parameters' names; a wrapper adds nothing to it."""
    seen = set() if seen is None else seen
    if id(root) in seen:
        return
    seen.add(id(root))
    yield path, root
    inner = _inner(root)
    for name, child in root._modules.items():
        if child is not None:
            yield from walk(child, path if child is inner else f"{path}{name}.", seen)


def install(session: Session) -> Models:
    """See every module as it is constructed or copied."""
    models = Models()

    def seeing(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def method(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
            result = original(self, *args, **kwargs)
            if not session.inside:
                models.saw(self)
            return result

        return method

    patched: Any = nn.Module
    patched.__init__ = seeing(nn.Module.__init__)
    patched.__setstate__ = seeing(nn.Module.__setstate__)
    return models
