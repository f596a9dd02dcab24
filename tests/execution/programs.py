"""Small programs for the tests: written to a folder, executed as their entry point, and observed from the outside.

A program shows values by `show(…)`, which hands them to a loader as its batch size: the record of the run keeps them.
"""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

from dpcheck.check import FRAMEWORKS
from dpcheck.execution import TrainingRun
from dpcheck.execution.entry import execute_script
from dpcheck.execution.facts import SourceKind
from dpcheck.execution.values import (
    Class,
    Const,
    Data,
    Foreign,
    Function,
    Instance,
    Mapping,
    Sequence,
    Value,
    options,
)
from dpcheck.program.cache import Cache
from dpcheck.program.intake import Entry, Stored
from dpcheck.program.link import Program
from dpcheck.source.files import Selection

SHOW = """
from torch.utils.data import DataLoader

def show(*values):
    DataLoader([], batch_size=values)
"""
STUBS = Cache()


class SharedStubs(Cache):
    """Knows the stubs from programs before, so that they are lowered once in a session."""

    def get(self, path: Path) -> Entry | None:
        return STUBS.get(path) if path.is_relative_to(FRAMEWORKS) else super().get(path)

    def put(self, path: Path, stored: Stored) -> None:
        if path.is_relative_to(FRAMEWORKS):
            STUBS.put(path, stored)
        else:
            super().put(path, stored)

    def span(self, path: Path, at: int) -> tuple[int, int, int, int] | None:
        return STUBS.span(path, at) if path.is_relative_to(FRAMEWORKS) else super().span(path, at)

    def keep_span(self, path: Path, at: int, span: tuple[int, int, int, int]) -> None:
        if path.is_relative_to(FRAMEWORKS):
            STUBS.keep_span(path, at, span)
        else:
            super().keep_span(path, at, span)


class Unknown:
    """What `shown` gives for a value that is not known; equal to any other of its kind."""

    def __init__(self, kind: str = "") -> None:
        self.kind = kind

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unknown) and self.kind == other.kind

    def __hash__(self) -> int:
        return hash(self.kind)

    def __repr__(self) -> str:
        return f"Unknown({self.kind!r})"


UNKNOWN = Unknown()
RANK = Unknown("rank")
WORLD = Unknown("world size")
OPTION = Unknown("option")


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), "utf-8")


def execute(root: Path, text: str, files: dict[str, str] | None = None) -> TrainingRun:
    """Execute `text` as train.py in the folder `root`, with other files beside it; `show` is there for it."""
    head = "from shows import show\n" if "show(" in text else ""
    write(root, {"train.py": head + textwrap.dedent(text), "shows.py": SHOW, **(files or {})})
    entry = root / "train.py"
    program = Program(Selection((entry,), roots=(root,)), cache=SharedStubs(), stub_folder=FRAMEWORKS)
    unit = program.unit(entry)
    assert unit.module is not None, unit.error
    return execute_script(program, unit)


def shown(run: TrainingRun) -> list[Any]:
    """What the program showed, one entry a call: the value, or a tuple of the values."""
    found = []
    for event in run.of_kind("loader"):
        value = plain(event.batch_size)
        found.append(value[0] if isinstance(value, tuple) and len(value) == 1 else value)
    return found


def plain(value: Value | None) -> Any:
    """A value as Python has it. Of several that it may be, a set; what is not known is `Unknown`."""
    many = list(options(value))
    if len(many) > 1:
        return frozenset(plain(option) for option in many)
    if isinstance(value, Const):
        return value.value
    if isinstance(value, Sequence) and value.items is not None:
        items = [plain(item) for item in value.items]
        return tuple(items) if value.kind == "tuple" else set(items) if value.kind == "set" else items
    if isinstance(value, Sequence):
        return [plain(value.element), ...]
    if isinstance(value, Mapping):
        return {key: plain(entry) for key, entry in value.entries.items()}
    if isinstance(value, (Instance, Class, Function, Foreign)):
        return f"<{value.cls.name if isinstance(value, Instance) else value.name}>"
    if isinstance(value, Data):
        if value.facts.has(SourceKind.OPTION):
            return OPTION
        for known in (RANK, WORLD):
            if value.identity == known.kind:
                return known
    return UNKNOWN
