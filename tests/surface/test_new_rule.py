"""The scaffold of a rule."""

from __future__ import annotations

import ast
import shutil
from pathlib import Path

import pytest

from dpcheck.rule import Group
from tests import new_rule, pages


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "rules").mkdir()
    shutil.copy(new_rule.ROOT / "rules" / "__init__.py", tmp_path / "rules")
    return tmp_path


def listed(root: Path) -> list[str]:
    body = ast.parse((root / "rules" / "__init__.py").read_text()).body
    (statement,) = (node for node in body if isinstance(node, ast.Assign))
    return list(ast.literal_eval(statement.value))


@pytest.mark.parametrize("group", Group)
def test_a_new_rule_is_listed_last_in_its_group(root: Path, group: Group) -> None:
    before = listed(root)
    new_rule.create(root, f"DP{group.value}98", "brand-new", group)
    name = f".{group.name.lower()}.brand_new"
    after = listed(root)
    assert [entry for entry in after if entry != name] == before
    order = [Group[entry.split(".")[1].upper()].value for entry in after]
    assert order == sorted(order)
    assert [entry for entry in after if entry.startswith(f".{group.name.lower()}.")][-1] == name


def test_a_new_page_has_the_headings(root: Path) -> None:
    module, page, case, _ = new_rule.create(root, "DP198", "brand-new", Group.WEIGHTS)
    parsed = pages.parse(page.read_text())
    assert parsed.title == "brand-new (DP198)"
    assert tuple(section.heading for section in parsed.sections) == pages.HEADINGS
    assert "# want: DP198" in case.read_text()
    ast.parse(module.read_text())


def test_nothing_is_overwritten(root: Path) -> None:
    new_rule.create(root, "DP198", "brand-new", Group.WEIGHTS)
    with pytest.raises(FileExistsError):
        new_rule.create(root, "DP199", "brand-new", Group.WEIGHTS)
