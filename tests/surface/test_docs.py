"""The documents agree with the code."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from dpcheck import config, registry
from dpcheck.check import exemptions
from dpcheck.cli import cli
from dpcheck.config import Config
from dpcheck.report.json import Report
from tests import generate

ROOT = generate.ROOT
DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "rules").glob("*/*.md")]
LINK = re.compile(r"\]\(([^)#:\s]+)(?:#([\w-]+))?\)")


@pytest.mark.parametrize("path", generate.GENERATED, ids=lambda path: path.name)
def test_generated_files_are_up_to_date(path: Path) -> None:
    assert path.read_text("utf-8") == generate.GENERATED[path](), "run python -m tests.generate"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    for target, anchor in LINK.findall(path.read_text("utf-8")):
        linked = path.parent / target
        assert linked.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)$", linked.read_text("utf-8"), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_configuration_key_is_described() -> None:
    text = (ROOT / "docs" / "configuration.md").read_text("utf-8")
    assert [key for key in Config.__struct_encode_fields__ if f"`{key}`" not in text] == []


def test_the_configuration_in_the_document_is_valid(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "configuration.md").read_text("utf-8")
    (tmp_path / "pyproject.toml").write_text(re.findall(r"^```toml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)[0])
    settings = config.load(tmp_path)
    installed = registry.load()
    assert installed.choose(settings.selectors, pedantic=settings.config.pedantic)
    assert exemptions(settings, installed)(str(tmp_path / "examples" / "a.py"))


def test_the_report_in_the_document_is_one() -> None:
    text = (ROOT / "docs" / "json.md").read_text("utf-8")
    (example,) = re.findall(r"^```json\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert msgspec.json.decode(example, type=Report, strict=True).findings[0].code == "DP301"


def test_the_readme_shows_what_the_check_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    text = (ROOT / "README.md").read_text("utf-8")
    (command, shown) = re.search(r"&& \S*dpcheck (.*)\n```\n\nIt answers:\n\n```text\n([^`]*)```", text).groups()
    printed = CliRunner().invoke(cli, [*command.split(), "--no-cache"], env={"NO_COLOR": "1"}).stdout
    assert re.sub(r"\(\d+\.\d s\)", "", printed) == re.sub(r"\(\d+\.\d s\)", "", shown)


def test_rule_files_and_the_list_of_rules_agree() -> None:
    listed = {entry.page.with_suffix(".py") for entry in registry.load().entries}
    written = {file for file in (ROOT / "rules").glob("*/*.py") if "\nRULE = " in file.read_text("utf-8")}
    assert written == {file for file in listed if file.is_relative_to(ROOT / "rules")}
