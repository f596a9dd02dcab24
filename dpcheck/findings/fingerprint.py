"""Fingerprints: what stays of a finding when the lines around it move."""

from __future__ import annotations

import collections
import hashlib
from collections.abc import Callable, Iterable, Sequence

from dpcheck.findings.finding import Finding


def fingerprints(findings: Iterable[Finding], lines: Callable[[str], Sequence[str]]) -> list[str]:
    """One fingerprint a finding, distinct within `findings`.

    It is made of the rule's code, the path, the text of the lines of the primary span with its white space evened out,
    and, since the same text may stand in a file more than once, how many findings alike came before. `lines` gives
    the lines of a path, none if the file cannot be read.
    """
    seen: collections.Counter[str] = collections.Counter()
    made = []
    for finding in findings:
        span = finding.span
        text = " ".join(" ".join(lines(span.path)[span.line - 1 : span.end_line]).split())
        alike = "\0".join((finding.rule.code, span.path, text))
        made.append(hashlib.sha256(f"{alike}\0{seen[alike]}".encode("utf-8", "surrogatepass")).hexdigest()[:16])
        seen[alike] += 1
    return made
