"""The report as JSON, for machines: docs/verify.schema.json is made from the types of `dpcheck.verify.result`."""

from __future__ import annotations

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
    return msgspec.json.format(msgspec.json.encode(whole), indent=2).decode() + "\n"
