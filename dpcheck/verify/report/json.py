"""The report as JSON, for machines: docs/verify.schema.json is made from the types of `dpcheck.verify.result`."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from dpcheck.findings.fingerprint import fingerprints
from dpcheck.report import Lines
from dpcheck.verify.report.findings import as_findings
from dpcheck.verify.result import Report


def render(report: Report, lines: Lines, *, color: bool = False) -> str:
    """Numbers that are not finite stand as null."""
    prints = fingerprints(as_findings(report, lines), lines)
    findings = [
        msgspec.structs.replace(finding, fingerprint=print_)
        for finding, print_ in zip(report.findings, prints, strict=True)
    ]
    whole = msgspec.structs.replace(report, findings=findings)
    return msgspec.json.format(_encoded(whole), indent=2).decode() + "\n"


def _encoded(report: Report) -> bytes:
    try:
        return msgspec.json.encode(report)
    except UnicodeEncodeError:
        return msgspec.json.encode(_writable(msgspec.to_builtins(report)))


def _writable(value: Any) -> Any:
    """The value with what cannot be written as UTF-8 replaced: bytes of names and messages that are no text."""
    if isinstance(value, str):
        return re.sub(r"[\ud800-\udfff]", "\N{REPLACEMENT CHARACTER}", value)
    if isinstance(value, dict):
        return {key: _writable(each) for key, each in value.items()}
    return [_writable(each) for each in value] if isinstance(value, list) else value
