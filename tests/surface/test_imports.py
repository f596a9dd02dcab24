"""Imports run one way."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent

ALLOWED = {
    "rules": {"rule", "execution", "findings"},
    "rule": set(),
    "findings": {"rule", "source"},
    "source": {"findings", "program"},
    "program": {"findings", "source"},
    "execution": {"rule", "findings", "source", "program"},
    "registry": {"rule", "findings", "execution"},
    "config": {"rule", "registry"},
    "check": {"rule", "findings", "source", "program", "execution", "registry", "config"},
    "report": {"rule", "findings", "source"},
}
"""What each part below the command line may import; the parts are those of the package `dpcheck`, and `rules`."""


def files() -> Iterator[tuple[str, Path]]:
    """Every module of ours, as (part, file). The framework stubs are programs to be executed, not modules."""
    for file in sorted((ROOT / "rules").rglob("*.py")):
        yield "rules", file
    for file in sorted((ROOT / "dpcheck").rglob("*.py")):
        part = file.relative_to(ROOT / "dpcheck").parts[0].removesuffix(".py")
        if part != "frameworks":
            yield part, file


def imports(file: Path) -> Iterator[str]:
    """The absolute names that the file imports, at any depth."""
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            if node.module == "dpcheck":
                yield from (f"dpcheck.{alias.name}" for alias in node.names)
            else:
                yield node.module


@pytest.mark.parametrize(
    ("part", "file"), list(files()), ids=lambda value: value if isinstance(value, str) else value.stem
)
def test_walls(part: str, file: Path) -> None:
    names = set(imports(file))
    tops = {name.partition(".")[0] for name in names}
    parts = {name.split(".")[1] for name in names if name.startswith("dpcheck.")}
    if part in ALLOWED:
        assert parts - ALLOWED[part] - {part} == set()
    assert "dpcheck_rules" not in tops
    if part not in ("verify", "testing"):
        assert "torch" not in tops
    if part != "cli":
        assert "cli" not in parts or file.name == "__main__.py"
    if part == "rules":
        assert tops - set(sys.stdlib_module_names) <= {"dpcheck"}
