"""Every rule is proved by a run: the command on its page shows the example's defect, and none in its right form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dpcheck import registry
from dpcheck.cli import cli
from tests import pages

PAGES = {entry.rule.code: pages.parse(entry.page.read_text("utf-8")) for entry in registry.load().entries}
PROVED = [code for code, page in PAGES.items() if page.proof is not None]


def verified(code: str, heading: str, folder: Path) -> dict[str, Any]:
    """The report of the page's command on the code of one of its sections."""
    page = PAGES[code]
    pages.write(page.section(heading).files, folder)
    assert page.proof is not None
    result = CliRunner().invoke(
        cli, ["verify", "--timeout", "60", "--output", "json=report.json", *page.proof, "train.py"]
    )
    assert Path("report.json").exists(), result.output
    report: dict[str, Any] = json.loads(Path("report.json").read_text("utf-8"))
    return report


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("code", PAGES)
def test_the_page_says_whether_a_run_can_show_it(code: str) -> None:
    assert PAGES[code].says_unprovable == (code not in PROVED)


@pytest.mark.parametrize("code", PROVED)
def test_a_run_of_the_example_shows_the_defect(code: str, tmp_path: Path) -> None:
    report = verified(code, "Example", tmp_path)
    assert report["verdict"] in ("different", "mismatch", "hang"), report["reason"]
    assert code in {finding["code"] for finding in report["findings"]}


@pytest.mark.parametrize("code", PROVED)
def test_a_run_of_what_to_use_instead_shows_none(code: str, tmp_path: Path) -> None:
    report = verified(code, "Use instead", tmp_path)
    assert (report["verdict"], report["findings"]) == ("equivalent", []), report["reason"]
