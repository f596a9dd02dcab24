"""Measured findings as findings of any other origin: the same formats, comments and baselines apply to them."""

from __future__ import annotations

from dpcheck.findings.finding import Finding, Note, Span
from dpcheck.report import Lines
from dpcheck.rule import Confidence, Group, Rule, Severity
from dpcheck.verify.result import Measured, Report

_GROUPS = {str(group.value): group for group in Group}


def as_findings(report: Report, lines: Lines) -> list[Finding]:
    """In the order of the report."""
    return [as_finding(each, lines) for each in report.findings]


def as_finding(each: Measured, lines: Lines) -> Finding:
    group = _GROUPS.get(each.code.removeprefix("DP")[:1], Group.HYGIENE)
    notes = tuple(Note(_span(note.path, note.line, note.column, lines), note.message) for note in each.related)
    known = each.end_column > each.column or each.end_line > each.line
    span = (
        Span(each.path, each.line, each.column, each.end_line, each.end_column)
        if known
        else _span(each.path, each.line, 1, lines)
    )
    return Finding(
        Rule(each.code, each.name, group, Severity(each.severity), ""),
        each.message,
        span,
        notes=notes,
        help=each.help,
        confidence=Confidence(each.confidence),
        origin="measured",
    )


def _span(path: str, line: int, column: int, lines: Lines) -> Span:
    """From the column to the end of the line; where only the line is known, all that is written on it."""
    text = lines(path)
    written = text[line - 1].rstrip() if 0 < line <= len(text) else ""
    start = column if column > 1 else len(written) - len(written.lstrip()) + 1
    return Span(path, line, start, line, max(len(written) + 1, start))
