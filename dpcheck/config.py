"""The configuration: `[tool.dpcheck]` in pyproject.toml, or dpcheck.toml, found upwards from the current directory."""

from __future__ import annotations

import difflib
import pathlib
import re
import sys
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

    `root` is the folder of the configuration file, `origin` its name.
    """

    root: pathlib.Path
    config: Config = Config()
    origin: str = "configuration"
    overlay: Selectors = Selectors()
    cache: bool = True

    @property
    def selectors(self) -> tuple[Selectors, ...]:
        config = self.config
        return Selectors(config.select, config.extend_select, config.ignore, self.origin), self.overlay

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
            if file.is_file():
                text, table = _read(file)
                if file.name == "pyproject.toml":
                    tool = table.get("tool")
                    table = tool.get("dpcheck") if isinstance(tool, dict) else None
                if table is not None:
                    return Settings(root=folder, config=_convert(file, text, table), origin=str(file))
    return Settings(root=start)


def _read(file: pathlib.Path) -> tuple[str, Any]:
    try:
        text = file.read_text("utf-8")
        return text, tomllib.loads(text)
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}") from error
    except ValueError as error:  # not UTF-8, or not TOML
        raise ConfigError(f"{file}: {error}") from error


def _convert(file: pathlib.Path, text: str, table: Any) -> Config:
    known = [field.encode_name for field in msgspec.structs.fields(Config)]
    for key in table if isinstance(table, dict) else ():
        if key not in known:
            closest = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {closest[0]!r}?" if closest else f"known are {', '.join(known)}"
            raise ConfigError(f"{_place(file, text, key)}: unknown key {key!r}, {hint}")
    try:
        return msgspec.convert(table, Config)
    except msgspec.ValidationError as error:
        match = re.search(r" - at `\$\.([\w-]+)", str(error))
        place, key = (_place(file, text, match[1]), f"{match[1]}: ") if match else (str(file), "")
        raise ConfigError(f"{place}: {key}{str(error).split(' - at ')[0]}") from error


def _place(file: pathlib.Path, text: str, key: str) -> str:
    """`file:line` of the key, found by its look: the parser does not tell positions."""
    header = re.search(r"^\s*\[tool\.dpcheck", text, re.MULTILINE) if file.name == "pyproject.toml" else None
    start = header.start() if header else 0
    entry = re.compile(rf"^\s*(?:\[(?:tool\.dpcheck\.)?)?\s*[\"']?{re.escape(key)}\b", re.MULTILINE)
    match = entry.search(text, start)
    return f"{file}:{text.count(chr(10), 0, match.end()) + 1}" if match else str(file)
