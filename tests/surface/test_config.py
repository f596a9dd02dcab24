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
        ("[tool.dpcheck]\nignore = 'DP3'\n", ":2: ignore: Expected `array`, got `str`"),
        ("[tool.dpcheck]\nignore = [\n  1\n]\n", ":2: ignore: Expected `str`, got `int`"),
        ("[tool.dpcheck]\nconfidence = 'sure'\n", ":2: confidence: Invalid enum value 'sure'"),
        ("[tool.dpcheck.per-file-ignores]\n'a' = 1\n", ":1: per-file-ignores: Expected `array`, got `int`"),
        ("[tool]\ndpcheck = 3\n", ": Expected `object`, got `int`"),
        ("[tool.dpcheck\n", ": Expected ']' at the end of a table declaration (at line 1, column 14)"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, text: str, complaint: str) -> None:
    file = tmp_path / "pyproject.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as error:
        load(tmp_path)
    assert str(error.value).startswith(f"{file}{complaint}")


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "dpcheck.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="utf-8"):
        load(tmp_path)


def test_a_pyproject_of_another_shape_is_not_ours(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("tool = 3\n")
    assert load(tmp_path).config == Config()
