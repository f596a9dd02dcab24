"""Every rule's page is whole, and its code blocks are true: the example is found, what to use instead is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpcheck import registry
from tests import pages
from tests.wants import score, wants

ENTRIES = registry.load().entries


@pytest.fixture(params=ENTRIES, ids=lambda entry: entry.rule.code)
def entry(request: pytest.FixtureRequest) -> registry.Entry:
    return request.param


@pytest.fixture
def page(entry: registry.Entry) -> pages.Page:
    return pages.parse(entry.page.read_text("utf-8"))


def test_page_is_whole(entry: registry.Entry, page: pages.Page) -> None:
    assert page.title == f"{entry.rule.name} ({entry.rule.code})"
    assert tuple(section.heading for section in page.sections) == pages.HEADINGS
    assert all(section.text or section.files for section in page.sections)


def test_example_is_found(entry: registry.Entry, page: pages.Page, tmp_path: Path, monkeypatch) -> None:
    pages.write(page.section("Example").files, tmp_path)
    monkeypatch.chdir(tmp_path)
    assert entry.rule.code in {code for _, _, code in wants(tmp_path, tmp_path.rglob("*.py"))}
    result = score(tmp_path, tmp_path, (entry.rule.code,))
    assert (result.missed, result.extra) == ([], [])
    for finding in result.findings:
        assert finding.message[0].islower()
        texts = (finding.message, finding.label, finding.help, *(note.label for note in finding.notes))
        assert not [text for text in texts if text.endswith(".") or "\n" in text]


@pytest.mark.parametrize("heading", ["Use instead", "When it stays silent"])
def test_right_code_is_not(entry: registry.Entry, page: pages.Page, heading: str, tmp_path: Path, monkeypatch) -> None:
    pages.write(page.section(heading).files, tmp_path)
    monkeypatch.chdir(tmp_path)
    result = score(tmp_path, tmp_path, (entry.rule.code,))
    assert (result.missed, result.extra) == ([], [])


@pytest.mark.parametrize("rule", [entry.rule for entry in ENTRIES], ids=lambda rule: rule.code)
def test_summary_reads_like_a_message(rule) -> None:
    assert rule.summary[0].islower()
    assert not rule.summary.endswith(".")
    assert "\n" not in rule.summary
