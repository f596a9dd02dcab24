"""The configuration files."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpcheck.config import Config, ConfigError, load
from dpcheck.registry import Selectors
from dpcheck.rule import Confidence, Severity


def test_without_a_file_the_defaults_hold(tmp_path: Path) -> None:
    assert load(tmp_path).config == Config()


def test_every_key(tmp_path: Path) -> None:
    (tmp_path / "dpcheck.toml").write_text(
        'select = ["DP3"]\nextend-select = ["DP107"]\nignore = ["DP301"]\nexclude = ["old/"]\n'
        'confidence = "low"\nfail-on = "error"\npedantic = true\n[per-file-ignores]\n"tests/*" = ["DP2"]\n'
    )
    settings = load(tmp_path)
    assert settings.config == Config(
        select=("DP3",),
        extend_select=("DP107",),
        ignore=("DP301",),
        per_file_ignores={"tests/*": ("DP2",)},
        exclude=("old/",),
        confidence=Confidence.LOW,
        fail_on=Severity.ERROR,
        pedantic=True,
    )
    assert settings.selectors[0] == Selectors(("DP3",), ("DP107",), ("DP301",), str(tmp_path / "dpcheck.toml"))


def test_the_nearest_file_with_a_section_counts(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text("[tool.dpcheck]\npedantic = true\n")
    (tmp_path / "a" / "pyproject.toml").write_text("[tool.other]\n")
    assert load(inner).config.pedantic
    assert load(inner).root == tmp_path
    (tmp_path / "a" / "dpcheck.toml").write_text("")
    assert not load(inner).config.pedantic


def test_the_command_line_wins(tmp_path: Path) -> None:
    (tmp_path / "dpcheck.toml").write_text('confidence = "low"\nfail-on = "error"\n')
    settings = load(tmp_path).overlaid(Selectors(("DP3",)), confidence=Confidence.HIGH, fail_on=None, cache=False)
    assert settings.config.confidence is Confidence.HIGH
    assert settings.config.fail_on is Severity.ERROR
    assert settings.selectors[-1].select == ("DP3",)
    assert not settings.cache


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[tool.other]\nselct = 1\n[tool.dpcheck]\n\nselct = []\n", ":5: unknown key 'selct', did you mean 'select'?"),
        ("[tool.dpcheck]\nzzz = 1\n", ":2: unknown key 'zzz', known are select, extend-select, "),
        ("[tool.dpcheck]\nignore = 'DP3'\n", ":2: ignore: a text where a list is wanted"),
        ("[tool.dpcheck]\nignore = [\n  1\n]\n", ":2: ignore: a number where a text is wanted"),
        ("[tool.dpcheck]\nconfidence = 'sure'\n", ":2: confidence: 'sure' is not one of high, medium, low"),
        ("[tool.dpcheck]\nselect = 'DP3'\n", ":2: select: a text where a list is wanted"),
        ("[tool.dpcheck]\npedantic = 1\n", ":2: pedantic: a number where true or false is wanted"),
        ("[tool.dpcheck]\nfail-on = 1\n", ":2: fail-on: a number where a text is wanted"),
        ("[tool.dpcheck.per-file-ignores]\n'a' = 1\n", ":1: per-file-ignores: a number where a list is wanted"),
        ("[tool]\ndpcheck = 3\n", ": dpcheck: a number where a table is wanted"),
        ("[[tool.dpcheck]]\n", ": dpcheck: a list where a table is wanted"),
        ("[tool.dpcheck\n", ":1: Expected ']' at the end of a table declaration"),
        ("[tool.dpcheck]\nselect = []\nselect = []\n", ":3: Cannot overwrite a value"),
        (f"[tool.dpcheck]\nselect = {'[' * 100_000}", ": nests too deeply"),
        ("[tool.dpcheck]\nexclude = [\n  'a',\n  '!',\n]\n", ":4: '!' is not a pattern as in a .gitignore"),
        ("[tool.dpcheck.per-file-ignores]\n'!' = []\n", ":2: '!' is not a pattern as in a .gitignore"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, text: str, complaint: str) -> None:
    file = tmp_path / "pyproject.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as error:
        load(tmp_path)
    assert str(error.value).startswith(f"{file}{complaint}")


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "dpcheck.toml").write_bytes(b"pedantic = true\n\xff")
    with pytest.raises(ConfigError, match=r"dpcheck\.toml:2: cannot be decoded as utf-8"):
        load(tmp_path)


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    (tmp_path / "dpcheck.toml").write_bytes(b"\xef\xbb\xbfpedantic = true\r\n")
    assert load(tmp_path).config.pedantic


def test_selectors_know_their_place(tmp_path: Path) -> None:
    file = tmp_path / "pyproject.toml"
    file.write_text('[tool.other]\nx = "DP3"\n[tool.dpcheck]\nselect = [\n  "DP3",\n  "ALL"]\n')
    assert load(tmp_path).selectors[0].places == {"DP3": f"{file}:5", "ALL": f"{file}:6"}


def test_a_pyproject_of_another_shape_is_not_ours(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("tool = 3\n")
    assert load(tmp_path).config == Config()
