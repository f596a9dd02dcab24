"""The configuration: `[tool.dpcheck]` in pyproject.toml, or dpcheck.toml, found upwards from the current directory."""

from __future__ import annotations

import difflib
import pathlib
import re
import sys
from collections.abc import Iterable
from typing import Any

import msgspec

from dpcheck.registry import Selectors
from dpcheck.rule import Confidence, Severity

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


class ConfigError(Exception):
    """A configuration file that cannot be read, or says what dpcheck does not understand."""


class Config(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """The keys of the configuration, with their defaults.

    `exclude` and the patterns of `per_file_ignores` are written as in a .gitignore, relative to `root`.
    """

    select: tuple[str, ...] | None = None
    extend_select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    per_file_ignores: dict[str, tuple[str, ...]] = {}
    exclude: tuple[str, ...] = ()
    confidence: Confidence = Confidence.MEDIUM
    fail_on: Severity = Severity.WARNING
    pedantic: bool = False


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What a check is told to do: the configuration and what the command line lays over it.

    `root` is the folder of the configuration file, `origin` its name; `places` are the `file:line` of selectors in it.
    """

    root: pathlib.Path
    config: Config = Config()
    origin: str = "configuration"
    places: dict[str, str] = {}
    overlay: Selectors = Selectors()
    cache: bool = True

    @property
    def selectors(self) -> tuple[Selectors, ...]:
        config = self.config
        own = Selectors(config.select, config.extend_select, config.ignore, self.origin, self.places)
        return own, self.overlay

    def overlaid(self, overlay: Selectors, *, cache: bool = True, **values: Any) -> Settings:
        """These settings with what the command line says; of `values`, keys of `Config`, those that are not None."""
        given = {key: value for key, value in values.items() if value is not None}
        config = msgspec.structs.replace(self.config, **given)
        return msgspec.structs.replace(self, config=config, overlay=overlay, cache=cache)


def load(start: pathlib.Path) -> Settings:
    """The settings for a check that is started in the folder `start`. Raises `ConfigError`."""
    start = start.resolve()
    for folder in (start, *start.parents):
        for file in (folder / "dpcheck.toml", folder / "pyproject.toml"):
            if _is_file(file):
                text, table = _read(file)
                if file.name == "pyproject.toml":
                    tool = table.get("tool")
                    table = tool.get("dpcheck") if isinstance(tool, dict) else None
                if table is not None:
                    config = _convert(file, text, table)
                    places = {selector: _place(file, text, selector) for selector in _selectors(config)}
                    return Settings(root=folder, config=config, origin=str(file), places=places)
    return Settings(root=start)


def _is_file(file: pathlib.Path) -> bool:
    try:
        return file.is_file()
    except OSError:  # in a folder that may not be entered
        return False


def _read(file: pathlib.Path) -> tuple[str, Any]:
    try:
        text = file.read_bytes().decode("utf-8-sig")
        return text, tomllib.loads(text)
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{file}:{line}: cannot be decoded as utf-8") from error
    except ValueError as error:  # not TOML
        match = re.search(r" \(at line (\d+), column \d+\)$", str(error))
        place, said = (f"{file}:{match[1]}", str(error)[: match.start()]) if match else (file, str(error))
        raise ConfigError(f"{place}: {said}") from error
    except RecursionError as error:
        raise ConfigError(f"{file}: nests too deeply") from error


def _convert(file: pathlib.Path, text: str, table: Any) -> Config:
    known = [field.encode_name for field in msgspec.structs.fields(Config)]
    for key in table if isinstance(table, dict) else ():
        if key not in known:
            closest = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {closest[0]!r}?" if closest else f"known are {', '.join(known)}"
            raise ConfigError(f"{_place(file, text, key)}: unknown key {key!r}, {hint}")
    try:
        config = msgspec.convert(table, Config)
    except msgspec.ValidationError as error:
        match = re.search(r" - at `\$\.([\w-]+)", str(error))
        place, key = (_place(file, text, match[1]), match[1]) if match else (str(file), "dpcheck")
        raise ConfigError(f"{place}: {key}: {_said(str(error).split(' - at ')[0], key)}") from error
    for pattern in (*config.exclude, *config.per_file_ignores):
        if not _is_pattern(pattern):
            raise ConfigError(f"{_place(file, text, pattern)}: {pattern!r} is not a pattern as in a .gitignore")
    return config


_CHOICES = {"confidence": Confidence, "fail-on": Severity}
_TYPES = {
    "array": "a list",
    "bool": "true or false",
    "float": "a number",
    "int": "a number",
    "object": "a table",
    "str": "a text",
}


def _said(complaint: str, key: str) -> str:
    """msgspec's complaint about a value in the words of TOML."""
    wrong = re.fullmatch(r"Invalid enum value (.+)", complaint)
    if wrong and key in _CHOICES:
        return f"{wrong[1]} is not one of {', '.join(choice.value for choice in _CHOICES[key])}"
    types = re.fullmatch(r"Expected `(\w+)(?: \| null)?`, got `(\w+)`", complaint)
    if types:
        wanted, given = (_TYPES.get(name, name) for name in types.groups())
        return f"{given} where {wanted} is wanted"
    return complaint


def _is_pattern(text: str) -> bool:
    import pathspec

    try:
        pathspec.GitIgnoreSpec.from_lines([text])
    except ValueError:
        return False
    return True


def _selectors(config: Config) -> Iterable[str]:
    yield from (*(config.select or ()), *config.extend_select, *config.ignore)
    for selectors in config.per_file_ignores.values():
        yield from selectors


def _place(file: pathlib.Path, text: str, word: str) -> str:
    """`file:line` of a key or a quoted text, found by its look: the parser does not tell positions."""
    header = re.search(r"^\s*\[tool\.dpcheck", text, re.MULTILINE) if file.name == "pyproject.toml" else None
    start = header.start() if header else 0
    key = rf"^\s*(?:\[(?:tool\.dpcheck\.)?)?\s*{re.escape(word)}\s*[=\].]"
    match = re.compile(rf"{key}|[\"']{re.escape(word)}[\"']", re.MULTILINE).search(text, start)
    return f"{file}:{text.count(chr(10), 0, match.end()) + 1}" if match else str(file)
