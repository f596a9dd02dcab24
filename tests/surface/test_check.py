"""From paths to findings, with rules that look for words."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dpcheck.check import check, merge
from dpcheck.config import Config, Settings
from dpcheck.findings.finding import Finding, Note, Span
from dpcheck.findings.result import Result
from dpcheck.program.link import Program
from dpcheck.registry import Registry, RegistryError, Selectors
from dpcheck.rule import Confidence
from tests.surface.conftest import BAD, ODD


def run(folder: Path, rules: Registry, *paths: str, overlay: Selectors | None = None, **config) -> Result:
    settings = Settings(root=folder, config=Config(**config), overlay=overlay or Selectors(), cache=False)
    return check([Path(path) for path in paths or (".",)], settings, rules)


def found(result: Result) -> list[tuple[str, int, str]]:
    return [(finding.span.path, finding.span.line, finding.rule.code) for finding in result.findings]


def test_findings_are_sorted_by_place(here: Path, rules: Registry) -> None:
    (here / "b.py").write_text("# BAD\n")
    (here / "a.py").write_text("# ODD\n# ODD BAD\n")
    result = run(here, rules)
    assert found(result) == [("a.py", 1, "XX302"), ("a.py", 2, "XX302"), ("a.py", 2, "XX301"), ("b.py", 1, "XX301")]
    assert (result.files, result.suppressed, result.unreadable, result.missing, result.errors) == (2, 0, 0, (), ())


def test_pedantic_rules_are_asked_for(here: Path, rules: Registry) -> None:
    (here / "a.py").write_text("# FINE\n")
    assert found(run(here, rules)) == []
    assert found(run(here, rules, pedantic=True)) == [("a.py", 1, "XX401")]
    assert found(run(here, rules, overlay=Selectors(extend_select=("fine-print",)))) == [("a.py", 1, "XX401")]


def test_confidence(here: Path, rules: Registry) -> None:
    (here / "a.py").write_text("# BAD GUESS\n")
    assert found(run(here, rules)) == []
    assert found(run(here, rules, confidence=Confidence.LOW)) == [("a.py", 1, "XX301")]


@pytest.mark.parametrize(
    "text",
    [
        "x = 1  # BAD # dpcheck: ignore[bad-word] on purpose\n",
        "x = 1  # BAD # dpcheck: ignore[XX301]\n",
        "# dpcheck: ignore[bad-word]\nx = 1  # BAD\n",
        "x = 1  # BAD\ny = 2  # SEE # dpcheck: ignore[bad-word] by a related span\n",
        "x = 1  # BAD ODD # dpcheck: ignore[bad-word, XX302]\n",
    ],
)
def test_a_comment_silences(here: Path, rules: Registry, text: str) -> None:
    (here / "a.py").write_text(text)
    result = run(here, rules)
    assert found(result) == []
    assert result.suppressed in (1, 2)


def test_a_comment_silences_only_what_it_names(here: Path, rules: Registry) -> None:
    (here / "a.py").write_text("x = 1  # BAD ODD # dpcheck: ignore[odd-word]\ny = 1  # ODD\n")
    assert found(run(here, rules)) == [("a.py", 1, "XX301"), ("a.py", 2, "XX302")]


def test_there_is_no_comment_for_everything(here: Path, rules: Registry) -> None:
    (here / "a.py").write_text("x = 1  # BAD # dpcheck: ignore\n")
    assert found(run(here, rules)) == [("a.py", 1, "XX301"), ("a.py", 1, "DP902")]


def test_an_unused_comment_is_reported(here: Path, rules: Registry) -> None:
    (here / "a.py").write_text("x = 1  # dpcheck: ignore[bad-word]\ny = 1  # ODD # dpcheck: ignore[XX301, XX302]\n")
    assert found(run(here, rules)) == [("a.py", 1, "DP901"), ("a.py", 2, "DP901")]


def test_a_comment_is_not_unused_when_its_rule_had_no_chance(here: Path, rules: Registry) -> None:
    (here / "a.py").write_text("x = 1  # dpcheck: ignore[bad-word]\ny = 1  # dpcheck: ignore[fine-print]\n")
    assert found(run(here, rules, ignore=("XX301",))) == []
    assert found(run(here, rules, per_file_ignores={"*.py": ("XX301",)})) == []
    assert found(run(here, rules, select=("XX302", "DP901"))) == []


def test_a_comment_on_a_finding_too_uncertain_to_show_is_used(here: Path, rules: Registry) -> None:
    (here / "a.py").write_text("x = 1  # BAD GUESS # dpcheck: ignore[bad-word]\n")
    result = run(here, rules)
    assert (found(result), result.suppressed) == ([], 0)


def test_a_comment_that_names_no_rule_is_unknown_and_not_unused(here: Path, rules: Registry) -> None:
    (here / "a.py").write_text("x = 1  # dpcheck: ignore[bad-wrd]\n")
    result = run(here, rules)
    assert found(result) == [("a.py", 1, "DP902")]
    assert result.findings[0].message == "there is no rule 'bad-wrd', did you mean 'bad-word'?"


def test_per_file_ignores(here: Path, rules: Registry) -> None:
    (here / "old").mkdir()
    (here / "old" / "a.py").write_text("# BAD ODD\n")
    (here / "b.py").write_text("# BAD\n")
    result = run(here, rules, per_file_ignores={"old/": ("XX3",), "b.py": ("odd-word",)})
    assert found(result) == [("b.py", 1, "XX301")]
    with pytest.raises(RegistryError, match="there is no rule 'XX9'"):
        run(here, rules, per_file_ignores={"old/": ("XX9",)})


def test_exclude(here: Path, rules: Registry) -> None:
    (here / "old").mkdir()
    (here / "old" / "a.py").write_text("# BAD\n")
    (here / "b.py").write_text("")
    assert run(here, rules, exclude=("old/",)).files == 1


UNREADABLE = {
    "python2.py": b'import os\nprint "x"\n',
    "null.py": b"x = 1\n\0\n",
    "latin.py": b"x = 'caf\xe9'\n",
    "unknown_coding.py": b"# -*- coding: klingon -*-\n",
    "deep.py": b"x = " + b"(" * 5000 + b")" * 5000,
    "unclosed.py": b"f(\n",
    "indent.py": b"if x:\n  a\n b\n",
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_file_that_cannot_be_read_is_a_finding(here: Path, rules: Registry, name: str) -> None:
    (here / name).write_bytes(UNREADABLE[name])
    (here / "other.py").write_text("# BAD\n")
    result = run(here, rules)
    assert sorted(found(result)) == sorted([(name, 1, "DP900"), ("other.py", 1, "XX301")])
    assert (result.files, result.unreadable) == (2, 1)
    assert found(run(here, rules, ignore=("DP900",))) == [("other.py", 1, "XX301")]
    assert (name, 1, "DP900") in found(run(here, rules, select=("XX302",)))


def test_the_place_of_a_syntax_error_is_related(here: Path, rules: Registry) -> None:
    (here / "a.py").write_bytes(UNREADABLE["python2.py"])
    (finding,) = run(here, rules).findings
    assert [note.span.line for note in finding.notes] == [2]
    assert finding.message.endswith("(line 2)")


def test_odd_things_in_folders(here: Path, rules: Registry) -> None:
    (here / "empty").mkdir()
    (here / "folder.py").mkdir()
    (here / "folder.py" / "inside.py").write_text("# BAD\n")
    (here / "loop").symlink_to(here)
    (here / "dangling.py").symlink_to(here / "nowhere")
    os.mkfifo(here / "pipe.py")
    result = run(here, rules)
    assert ("folder.py/inside.py", 1, "XX301") in found(result)
    assert [place for place in found(result) if place[2] != "DP900"] == [("folder.py/inside.py", 1, "XX301")]
    assert run(here, rules, "empty").files == 0


def test_a_missing_path_does_not_hide_the_others(here: Path, rules: Registry) -> None:
    (here / "a.py").write_text("# BAD\n")
    result = run(here, rules, "a.py", "gone.py", "nowhere/")
    assert found(result) == [("a.py", 1, "XX301")]
    assert [Path(path).name for path in result.missing] == ["gone.py", "nowhere"]


def test_a_failure_costs_its_own_results_only(here: Path, rules: Registry) -> None:
    (here / "a.py").write_text("# ODD\n# CRASH BAD\n")
    (here / "b.py").write_text("# EXPLODE BAD\n")
    (here / "c.py").write_text("# BAD\n")
    result = run(here, rules)
    assert found(result) == [("a.py", 1, "XX302"), ("c.py", 1, "XX301")]
    assert [(error.path, error.doing) for error in result.errors] == [
        ("a.py", "checking XX301"),
        ("a.py", "checking XX302"),
        ("b.py", "executing the program"),
    ]
    assert "RuntimeError: the rule broke" in result.errors[0].traceback


def test_a_failure_around_the_runs_costs_no_findings(here: Path, rules: Registry, monkeypatch) -> None:
    def broken(self):
        raise ZeroDivisionError

    (here / "a.py").write_text("# BAD\n")
    monkeypatch.setattr(Program, "save", broken)
    monkeypatch.setattr("dpcheck.program.link.Unit.ignores", property(broken))
    result = run(here, rules)
    assert found(result) == [("a.py", 1, "XX301")]
    assert [(error.path, error.doing) for error in result.errors] == [
        ("a.py", "reading the comments"),
        (".dpcheck_cache", "writing the cache"),
    ]
    (here / "b.py").write_text("(\n")
    monkeypatch.setattr(Program, "entries", property(broken))
    result = run(here, rules)
    assert found(result) == [("b.py", 1, "DP900")]
    assert "looking for what can be run" in [error.doing for error in result.errors]


def test_the_same_fault_in_two_runs_is_one_finding() -> None:
    span, see, also = (Span("a.py", line, 1, line, 2) for line in (1, 2, 3))
    guess = Finding(BAD, "a guess", span, notes=(Note(see, "see"),), confidence=Confidence.MEDIUM)
    sure = Finding(BAD, "sure", span, notes=(Note(also, "also"), Note(see, "see")))
    other = Finding(ODD, "other", span)
    first, second = merge([guess, other, sure])
    assert (first.message, first.confidence) == ("sure", Confidence.HIGH)
    assert set(first.notes) == {Note(see, "see"), Note(also, "also")}
    assert second == other
