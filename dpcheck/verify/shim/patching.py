"""Replacing torch's functions: in their module, and under every name by which torch's own modules had imported them."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

Function = Callable[..., Any]


class Patches:
    """What was replaced. A name that this version of torch lacks is passed over."""

    def __init__(self) -> None:
        self._successors: dict[int, tuple[object, object]] = {}  # holding the originals keeps their ids theirs

    def replace(self, owner: object, name: str, replacement: object) -> None:
        original = getattr(owner, name, None)
        if original is None:
            return
        setattr(owner, name, replacement)
        if replacement is not original:
            self._successors[id(original)] = (original, replacement)

    def wrap(self, owner: object, name: str, make: Callable[[Function], Function]) -> None:
        """Replace the function by `make(function)`, which keeps its name, documentation and attributes."""
        original = getattr(owner, name, None)
        if original is not None:
            wrapper = make(original)
            functools.update_wrapper(wrapper, original)
            self.replace(owner, name, wrapper)

    def wrap_each(self, owner: object, names: Iterable[str], make: Callable[[Function], Function]) -> None:
        for name in names:
            self.wrap(owner, name, make)

    def spread(self) -> None:
        """Replace also where a module of torch holds the original under a name of its own (`from … import …`)."""
        for module in list(sys.modules.values()):
            if not isinstance(module, ModuleType) or module.__name__.partition(".")[0] != "torch":
                continue
            names = vars(module)
            for name, value in list(names.items()):
                if id(value) in self._successors:
                    names[name] = self._latest(value)

    def _latest(self, value: object) -> object:
        """Several parts of the shim may have wrapped the same function, one around the other."""
        while (entry := self._successors.get(id(value))) is not None and entry[0] is value:
            value = entry[1]
        return value
