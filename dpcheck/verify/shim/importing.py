"""Adapting libraries as soon as they have been imported, or at once where they already were."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

Adapt = Callable[[ModuleType], None]


class AdaptingFinder(importlib.abc.MetaPathFinder):
    """Finds modules as Python would, and has `adapt(module)` run when their code has run."""

    def __init__(self) -> None:
        self._adapters: dict[str, list[Adapt]] = {}
        self._sought: set[str] = set()

    def adapt(self, name: str, adapt: Adapt) -> None:
        self._adapters.setdefault(name, []).append(adapt)
        module = sys.modules.get(name)
        if module is not None:
            adapt(module)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        adapters = self._adapters.get(fullname)
        if not adapters or fullname in self._sought:
            return None
        self._sought.add(fullname)  # another finder may ask all finders in its turn
        try:
            spec = self._spec_of_others(fullname, path, target)
        finally:
            self._sought.discard(fullname)
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader
            execute = loader.exec_module

            def execute_and_adapt(module: ModuleType) -> None:
                execute(module)
                for adapt in adapters:
                    adapt(module)

            loader.exec_module = execute_and_adapt
        return spec

    def _spec_of_others(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> importlib.machinery.ModuleSpec | None:
        # Only those behind this one are asked: another of its kind may be before it, and would ask this one again.
        for finder in sys.meta_path[sys.meta_path.index(self) + 1 :]:
            if (spec := finder.find_spec(fullname, path, target)) is not None:
                return spec
        return None


def install() -> AdaptingFinder:
    finder = AdaptingFinder()
    sys.meta_path.insert(0, finder)
    return finder
