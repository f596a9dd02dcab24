"""Libraries are adapted as soon as they have been imported, and torch's functions under every name."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dpcheck.verify.shim import importing
from dpcheck.verify.shim.patching import Patches


@pytest.fixture
def finder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[importing.AdaptingFinder]:
    (tmp_path / "adapted_library").mkdir()
    (tmp_path / "adapted_library" / "__init__.py").write_text("from adapted_library.inner import value\n", "utf-8")
    (tmp_path / "adapted_library" / "inner.py").write_text("value = 1\n", "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    found = importing.install()
    yield found
    sys.meta_path.remove(found)
    for name in ("adapted_library", "adapted_library.inner"):
        sys.modules.pop(name, None)


def test_a_module_is_adapted_before_others_import_from_it(finder: importing.AdaptingFinder) -> None:
    finder.adapt("adapted_library.inner", lambda module: setattr(module, "value", 2))
    assert importlib.import_module("adapted_library").value == 2
    assert sys.modules["adapted_library.inner"].__spec__ is not None


def test_a_module_that_is_there_is_adapted_at_once(finder: importing.AdaptingFinder) -> None:
    module = importlib.import_module("adapted_library.inner")
    finder.adapt("adapted_library.inner", lambda module: setattr(module, "value", 3))
    assert module.value == 3


def test_a_module_that_is_not_there_is_not_found(finder: importing.AdaptingFinder) -> None:
    finder.adapt("adapted_library.missing", lambda module: pytest.fail("there is none"))
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("adapted_library.missing")


def test_two_finders_that_ask_each_other(finder: importing.AdaptingFinder) -> None:
    other = importing.install()
    try:
        for each in (finder, other):
            each.adapt("adapted_library.inner", lambda module: setattr(module, "value", module.value + 1))
        assert importlib.import_module("adapted_library.inner").value == 3
    finally:
        sys.meta_path.remove(other)


def test_a_function_is_replaced_under_every_name_of_torchs() -> None:
    home: Any = types.ModuleType("torch._dpcheck_home")
    other: Any = types.ModuleType("torch._dpcheck_other")
    foreign: Any = types.ModuleType("torchlike")

    def add(number: int) -> int:
        """Adds."""
        return number + 1

    home.add = other.renamed = foreign.add = add
    modules = {module.__name__: module for module in (home, other, foreign)}
    sys.modules.update(modules)
    try:
        patches = Patches()
        patches.wrap(home, "add", lambda original: lambda number: original(number) * 10)
        patches.wrap(home, "add", lambda original: lambda number: original(number) + 5)
        patches.wrap(home, "missing", lambda original: pytest.fail("there is none"))
        patches.spread()
        assert home.add(1) == other.renamed(1) == 25
        assert home.add.__doc__ == "Adds."
        assert foreign.add(1) == 2
        assert not hasattr(home, "missing")
    finally:
        for name in modules:
            del sys.modules[name]
