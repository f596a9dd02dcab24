"""Unknown is not false: what cannot be read may take findings away, and never brings one."""

from __future__ import annotations

import ast
import functools
import random
from pathlib import Path
from typing import Any

import pytest

from tests.execution.unread import Found, findings, without_definitions

FIXTURES = Path(__file__).parents[2] / "fixtures"
PROGRAMS = sorted(path.parent for path in (*FIXTURES.glob("*/*/train.py"), *FIXTURES.glob("cases/*/*/train.py")))
ALONE = sorted(path for path in FIXTURES.glob("cases/*/*.py") if not path.name.startswith("_"))
DEFINITIONS = 2
"""So many definitions of each program are made opaque, of those that a file holds drawn at random."""


def name(path: Path) -> str:
    return path.relative_to(FIXTURES).as_posix()


def modules(program: Path) -> list[Path]:
    return sorted(program.rglob("*.py")) if program.is_dir() else [program]


@functools.cache
def as_it_is(program: Path) -> set[Found]:
    return findings(modules(program))


def pairs() -> list[Any]:
    return [
        pytest.param(program, module, id=f"{name(program)}-{module.relative_to(program).as_posix()}")
        for program in PROGRAMS
        for module in modules(program)
        if module.name != "train.py"
    ]


@pytest.mark.parametrize(("program", "module"), pairs())
def test_a_module_that_cannot_be_found_adds_no_finding(program: Path, module: Path) -> None:
    assert findings(modules(program), hidden=[module]) - as_it_is(program) == set()


@pytest.mark.parametrize("program", [*PROGRAMS, *ALONE], ids=name)
def test_a_definition_that_was_not_read_adds_no_finding(program: Path) -> None:
    files = modules(program)
    readable = [(path, text) for path in files if (text := decoded(path)) is not None]
    chance = random.Random(name(program))
    for path, text in chance.sample(readable, min(len(readable), DEFINITIONS)):
        for removed, mutated in chance.sample(variants := list(without_definitions(text)), min(len(variants), 1)):
            found = findings(files, texts={path: mutated})
            assert found - as_it_is(program) == set(), f"without {removed} of {path.name}"


def decoded(path: Path) -> str | None:
    """The text of a file; None of one that is encoded in a way of its own, or is no Python."""
    try:
        text = path.read_text("utf-8")
        ast.parse(text)
    except (SyntaxError, ValueError):
        return None
    return text
