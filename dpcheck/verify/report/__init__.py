"""The formats a verification can be written in. A format is a module of this package with a function `render`."""

from __future__ import annotations

import importlib

from dpcheck.report import Lines
from dpcheck.verify.result import Report

FORMATS = {"full": "text", "json": "json"}
"""The module by the name of the format, as `--output` takes it."""


def render(format_: str, report: Report, lines: Lines, *, color: bool = False) -> str:
    """The report in one of `FORMATS`, ending in a line break."""
    module = importlib.import_module(f"dpcheck.verify.report.{FORMATS[format_]}")
    text: str = module.render(report, lines, color=color)
    return text
