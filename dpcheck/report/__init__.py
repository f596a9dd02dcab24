"""The formats a result can be written in. A format is a module of this package with a function `render`."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence

from dpcheck.findings.result import Result

Lines = Callable[[str], Sequence[str]]
"""Gives the source lines of a path as a finding names it; none if the file cannot be read."""

FORMATS = ("full", "concise", "json")


def render(format_: str, result: Result, lines: Lines, *, color: bool = False) -> str:
    """The result in one of `FORMATS`, ending in a line break."""
    text: str = importlib.import_module(f"dpcheck.report.{format_}").render(result, lines, color=color)
    return text
