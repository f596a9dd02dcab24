"""One line a finding."""

from __future__ import annotations

from dpcheck.findings.result import Result
from dpcheck.report import Lines
from dpcheck.report.style import Style, shown
from dpcheck.report.summary import summary


def render(result: Result, lines: Lines, *, color: bool = False) -> str:
    style = Style(color)
    rows = []
    for finding in result.findings:
        span, rule = finding.span, finding.rule
        title = style.severity(rule.severity, f"{rule.severity.value}[{rule.code}]")
        rows.append(f"{style.bold(f'{shown(span.path)}:{span.line}:{span.column}')}: {title} {shown(finding.message)}")
    return "\n".join([*rows, summary(result)]) + "\n"
