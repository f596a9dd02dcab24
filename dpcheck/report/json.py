"""The result as JSON, for machines: docs/json.md describes it, docs/report.schema.json is made from the types below."""

from __future__ import annotations

import re
from typing import Literal, TypeAlias, cast

import msgspec

from dpcheck.findings.finding import Finding
from dpcheck.findings.fingerprint import fingerprints
from dpcheck.findings.result import Result
from dpcheck.report import Lines

Origin: TypeAlias = Literal["static", "measured"]


class Related(msgspec.Struct, frozen=True, kw_only=True):
    """Another place that one must look at to see the fault."""

    path: str
    line: int
    column: int
    message: str


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """A finding. Lines and columns count from 1; the end column is the one after the last character."""

    code: str
    name: str
    severity: Literal["error", "warning", "note"]
    confidence: Literal["high", "medium", "low"]
    message: str
    path: str
    line: int
    column: int
    end_line: int
    end_column: int
    related: list[Related]
    fingerprint: str
    origin: Origin


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """Counts: the files selected, those unreadable, and findings shown, silenced by comments, known to a baseline."""

    files: int
    findings: int
    suppressed: int
    baselined: int
    unreadable: int


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The whole document."""

    version: Literal[1]
    findings: list[Item]
    summary: Summary


def render(result: Result, lines: Lines, *, color: bool = False) -> str:
    prints = fingerprints(result.findings, lines)
    report = Report(
        version=1,
        findings=[item(finding, print_) for finding, print_ in zip(result.findings, prints, strict=True)],
        summary=Summary(
            files=result.files,
            findings=len(result.findings),
            suppressed=result.suppressed,
            baselined=result.baselined,
            unreadable=result.unreadable,
        ),
    )
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode() + "\n"


def item(finding: Finding, fingerprint: str) -> Item:
    rule, span = finding.rule, finding.span
    return Item(
        code=rule.code,
        name=rule.name,
        severity=rule.severity.value,
        confidence=finding.confidence.value,
        message=_text(finding.message),
        path=_text(span.path),
        line=span.line,
        column=span.column,
        end_line=span.end_line,
        end_column=span.end_column,
        related=[
            Related(path=_text(note.span.path), line=note.span.line, column=note.span.column, message=_text(note.label))
            for note in finding.notes
        ],
        fingerprint=fingerprint,
        origin=cast("Origin", finding.origin),
    )


def _text(text: str) -> str:
    """The text without what cannot be written as UTF-8: bytes of a file's name, and lone surrogates of its text."""
    return re.sub(r"[\ud800-\udfff]", "\N{REPLACEMENT CHARACTER}", text)
