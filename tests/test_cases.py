"""The programs in fixtures/ and the cases in fixtures/cases/: every want is met and nothing else is reported.

A program is `<name>/<variant>/`, a case `<group>/<slug>/` or `<group>/<slug>.py`; a folder has a train.py. A line
`# select: DP107` in the comment at its top names the pedantic rules that a case needs.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.wants import score

FIXTURES = Path(__file__).parent.parent / "fixtures"
SELECT = re.compile(r"^#\s*select:\s*(.*)$", re.MULTILINE)


def cases() -> list[Path]:
    folders = [path.parent for path in FIXTURES.glob("*/*/train.py")]
    alone = [path for path in FIXTURES.glob("cases/*/*.py") if not path.name.startswith("_")]
    return sorted([*folders, *alone, *(path.parent for path in FIXTURES.glob("cases/*/*/train.py"))])


def selected(case: Path) -> tuple[str, ...]:
    """The rules that the comment at the top asks for."""
    match = SELECT.search((case / "train.py" if case.is_dir() else case).read_text("utf-8"))
    return tuple(re.split(r"[\s,]+", match[1].strip())) if match else ()


@pytest.mark.parametrize("case", cases(), ids=lambda case: f"{case.parent.name}/{case.stem}")
def test_case(case: Path, monkeypatch) -> None:
    monkeypatch.chdir(case.parent)
    result = score(case.parent, case, selected(case))
    assert (result.missed, result.extra) == ([], [])
