"""The last line of a report."""

from __future__ import annotations

import collections

from dpcheck.findings.result import Result
from dpcheck.rule import Severity


def summary(result: Result) -> str:
    """`3 errors, 1 warning in 12 files (0.4 s)`."""
    counts = collections.Counter(finding.rule.severity for finding in result.findings)
    said = [plural(counts[severity], severity.value) for severity in Severity if counts[severity]]
    hidden = f", {result.suppressed} suppressed" if result.suppressed else ""
    return f"{', '.join(said) or 'no findings'} in {plural(result.files, 'file')}{hidden} ({result.seconds:.1f} s)"


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
