"""The functions that a project's installed scripts call, read off its pyproject.toml, setup.cfg and setup.py.

What cannot be read, or is written in another way than these are as a rule, names no script.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from dpcheck.program import records as r
from dpcheck.source.text import Unreadable, load

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

GROUP = "console_scripts"
LONGEST = 256 << 10  # bytes
WIDEST = 10_000  # characters a line: over a key of a million dots tomllib would sit for minutes
REFERENCE = re.compile(r"([\w.]+)\s*:\s*([\w.]+)")


class Target(NamedTuple):
    """`module:function`, or `module:Class.method`."""

    module: str
    name: str


def targets(folder: Path, module: Callable[[Path], r.Module | None]) -> list[Target]:
    """What the scripts of the project in this folder call; `module` lowers a file."""
    found = [*_of_pyproject(folder / "pyproject.toml"), *_of_setup_cfg(folder / "setup.cfg")]
    setup = folder / "setup.py"
    if GROUP in _text(setup):
        found += _of_setup(module(setup))
    matches = [REFERENCE.match(reference.strip()) for reference in found]
    return list(dict.fromkeys(Target(*match.groups()) for match in matches if match is not None))


def _text(path: Path) -> str:
    try:
        _, data = load(path)
    except Unreadable:
        return ""
    return data.decode("utf-8", "replace") if len(data) <= LONGEST else ""


def _of_pyproject(path: Path) -> Iterator[str]:
    text = _text(path)
    if "scripts" not in text or max(map(len, text.splitlines())) > WIDEST:
        return
    try:
        table: dict[str, Any] = tomllib.loads(text)
    except (ValueError, RecursionError):  # not only TOMLDecodeError: also of a number with too many digits
        return
    for keys in (("project", "scripts"), ("tool", "poetry", "scripts")):
        scripts: Any = table
        for key in keys:
            scripts = scripts.get(key) if isinstance(scripts, dict) else None
        for script in scripts.values() if isinstance(scripts, dict) else ():
            # Poetry also has `{reference = "…", type = "console"}` and `{callable = "…"}`.
            named = script.get("reference", script.get("callable")) if isinstance(script, dict) else script
            if isinstance(named, str):
                yield named


def _of_setup_cfg(path: Path) -> Iterator[str]:
    text = _text(path)
    if GROUP in text:
        yield from _definitions(_section(text, "options.entry_points").get(GROUP, ()))


def _section(text: str, name: str) -> dict[str, list[str]]:
    """A section of a text in the format of setup.cfg: the lines of each value in it.

    configparser takes time in the square of a line's length, and fails in more ways than it says.
    """
    found: dict[str, list[str]] = {}
    inside = False
    lines: list[str] | None = None  # of the value at hand
    margin = 0
    for line in text.splitlines():
        stripped = line.strip()
        if not stripped or stripped[0] in "#;":
            continue
        indent = len(line) - len(line.lstrip())
        if lines is not None and indent > margin:
            lines.append(stripped)
            continue
        margin, lines = indent, None
        if stripped[0] == "[" and "]" in stripped:
            inside = stripped[1 : stripped.rindex("]")] == name
        elif inside:
            key, *value = re.split("[=:]", stripped, maxsplit=1)
            lines = found[key.strip().lower()] = [text.strip() for text in value]
        else:
            lines = []
    return found


def _definitions(lines: Iterable[str]) -> Iterator[str]:
    """The right sides of `script = module:function`."""
    for line in lines:
        _, equals, reference = line.partition("=")
        if equals:
            yield reference


def _of_setup(module: r.Module | None) -> Iterator[str]:
    """From a setup.py: the entry `"console_scripts"` of a dictionary, or a text with such a section."""
    if module is None:
        return
    named = {
        target.id: statement.value
        for statement in module.body
        if isinstance(statement, r.Assign) and statement.value is not None
        for target in statement.targets
        if isinstance(target, r.Name)
    }
    waiting: list[Any] = [module.body]
    while waiting:
        node = waiting.pop()
        if isinstance(node, r.DictItem) and isinstance(node.key, r.Const) and node.key.value == GROUP:
            yield from _definitions(_texts(node.value, named))
        elif isinstance(node, r.Const) and isinstance(node.value, str) and f"[{GROUP}]" in node.value:
            yield from (line for lines in _section(node.value, GROUP).values() for line in lines)
        elif isinstance(node, tuple):
            waiting.extend(node)
        elif isinstance(node, msgspec.Struct):
            waiting.extend(getattr(node, field) for field in node.__struct_fields__)


def _texts(value: r.Expr, named: dict[str, r.Expr]) -> Iterator[str]:
    """The lines that a text, a list of texts or a name of one stands for."""
    waiting = [value]
    seen: set[str] = set()
    while waiting:
        node = waiting.pop()
        if isinstance(node, r.Const) and isinstance(node.value, str):
            yield from node.value.splitlines()
        elif isinstance(node, r.Seq):
            waiting.extend(reversed(node.items))
        elif isinstance(node, r.Name) and node.id in named and node.id not in seen:
            seen.add(node.id)
            waiting.append(named[node.id])
