"""Parts of a program made opaque: a module that cannot be found, a function or class that nobody has read."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from pathlib import Path

from dpcheck import registry
from dpcheck.check import FRAMEWORKS
from dpcheck.execution import Execution
from dpcheck.findings.finding import Span
from dpcheck.program.intake import Entry, Stored, examine
from dpcheck.program.link import Program, Unit
from dpcheck.source.files import Selection, absolute, display
from dpcheck.source.positions import Positions
from dpcheck.source.text import decode
from tests.execution.programs import SharedStubs

Found = tuple[str, str, int]
"""Rule, file and line of a finding."""


class Memory(SharedStubs):
    """Knows the files of programs before, and for some files another text than theirs."""

    def __init__(self, texts: dict[Path, str]) -> None:
        super().__init__()
        self.texts = {path: take_apart(path, text) for path, text in texts.items()}

    def get(self, path: Path) -> Entry | None:
        changed = self.texts.get(path)
        return READ.get(path) if changed is None else changed

    def put(self, path: Path, stored: Stored) -> None:
        READ.put(path, stored)

    def span(self, path: Path, at: int) -> tuple[int, int, int, int] | None:
        return READ.span(path, at)

    def keep_span(self, path: Path, at: int, span: tuple[int, int, int, int]) -> None:
        READ.keep_span(path, at, span)


READ = SharedStubs()


def take_apart(path: Path, text: str) -> Entry:
    return examine(path, text.encode(), lower=True)


class Altered(Program):
    """A program in which imports of some modules resolve to nothing, and some files have another text than theirs.

    It does not start in the modules that are hidden.
    """

    def __init__(self, files: Collection[Path], hidden: Collection[Path], texts: dict[Path, str]) -> None:
        self._hidden = set(hidden)
        self._altered = {path: Positions(decode(path, text.encode())) for path, text in texts.items()}
        selected = tuple(path for path in files if path not in self._hidden)
        super().__init__(Selection(selected), cache=Memory(texts), stub_folder=FRAMEWORKS)

    def find(self, importer: Unit, dotted: str, level: int = 0) -> Unit | None:
        return self._unless_hidden(super().find(importer, dotted, level))

    def child(self, package: Unit, name: str) -> Unit | None:
        return self._unless_hidden(super().child(package, name))

    def _unless_hidden(self, unit: Unit | None) -> Unit | None:
        return None if unit is None or unit.path in self._hidden else unit

    def span(self, path: Path | str, at: int) -> Span:
        altered = self._altered.get(Path(absolute(path)))
        return super().span(path, at) if altered is None else Span(str(path), *altered.span(at))


def findings(
    files: Collection[Path], hidden: Collection[Path] = (), texts: dict[Path, str] | None = None
) -> set[Found]:
    """What the rules find in the runs of the files (absolute paths), of any confidence."""
    program = Altered(files, hidden, texts or {})
    execution = Execution(program)
    runs = [run for part in execution.parts for unit in program.entries for run in part(unit)]
    spans = [
        (entry.rule.code, finding.span)
        for run in runs
        for entry in RULES
        if entry.check is not None
        for finding in entry.check(run)
    ]
    return {(code, display(Path(span.path)), span.line) for code, span in spans}


RULES = registry.load().entries


def without_definitions(text: str) -> Iterator[tuple[str, str]]:
    """The program, once for each function, method and class in it: that one is imported from nowhere instead.

    Lines keep their numbers.
    """
    tree = ast.parse(text)
    lines = text.splitlines()
    for owner, node in definitions(tree):
        first = min([node.lineno, *[decorator.lineno for decorator in node.decorator_list]])
        last = node.end_lineno or first
        indent = lines[first - 1][: len(lines[first - 1]) - len(lines[first - 1].lstrip())]
        stub = f"{indent}from unread_package import {node.name}"
        kept = [*lines[: first - 1], stub, *[""] * (last - first), *lines[last:]]
        yield f"{owner}{node.name}", "\n".join(kept) + "\n"


def definitions(
    tree: ast.Module,
) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]]:
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield "", node
        if isinstance(node, ast.ClassDef):
            for member in node.body:
                if isinstance(member, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    yield f"{node.name}.", member
