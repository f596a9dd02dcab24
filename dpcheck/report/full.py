"""Every finding with the source that shows it: each span underlined and labelled, file by file."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from dpcheck.findings.finding import Finding, Span
from dpcheck.findings.result import Result
from dpcheck.report import Lines
from dpcheck.report.style import Style, shown, width
from dpcheck.report.summary import summary
from dpcheck.rule import Confidence

_WIDEST = 200
_BEFORE = 60


@dataclasses.dataclass(frozen=True, slots=True)
class _Mark:
    """A span to underline. The label stands beside the first line; the primary span is drawn with carets."""

    span: Span
    label: str
    primary: bool


def render(result: Result, lines: Lines, *, color: bool = False) -> str:
    style = Style(color)
    blocks = ["\n".join(finding_lines(finding, lines, style)) for finding in result.findings]
    return "\n\n".join([*blocks, style.bold(summary(result))]) + "\n"


def finding_lines(finding: Finding, lines: Lines, style: Style) -> Iterator[str]:
    """One finding, line by line."""
    rule = finding.rule
    marks = [_Mark(finding.span, finding.label, True), *(_Mark(note.span, note.label, False) for note in finding.notes)]
    margin = len(str(max(mark.span.end_line for mark in marks)))
    title = style.severity(rule.severity, f"{rule.severity.value}[{rule.code} {rule.name}]")
    yield f"{title}{style.bold(f': {shown(finding.message)}')}"
    for path in dict.fromkeys(mark.span.path for mark in marks):
        here = [mark for mark in marks if mark.span.path == path]
        yield from _file(finding, here, lines(path), margin, style)
    remarks = []
    if finding.help:
        remarks.append(f"{style.bold('help')}: {shown(finding.help)}")
    if finding.confidence is not Confidence.HIGH:
        remarks.append(f"{style.bold('note')}: confidence {finding.confidence.value}")
    if remarks:
        yield " " * margin + style.faint(" |")
    for remark in remarks:
        yield f"{' ' * margin} {style.faint('=')} {remark}"


def _file(finding: Finding, marks: Sequence[_Mark], text: Sequence[str], margin: int, style: Style) -> Iterator[str]:
    wall = style.faint("|")
    unseen = [mark for mark in marks if mark.span.line > len(text)]
    marks = [mark for mark in marks if mark.span.line <= len(text)]
    for mark in [*unseen, *marks[:1]]:
        arrow = "-->" if mark.primary else ":::"
        label = f": {shown(mark.label)}" if mark in unseen and mark.label else ""
        yield f"{' ' * margin}{style.faint(arrow)} {shown(mark.span.path)}:{mark.span.line}:{mark.span.column}{label}"
    if marks:
        yield f"{' ' * margin} {wall}"
    before = None
    for number in _numbers(marks, len(text)):
        if before is not None and number > before + 1:
            yield style.faint("...")
        before = number
        here = [mark for mark in marks if number in (mark.span.line, mark.span.end_line)]
        line, stretches = _cut(text[number - 1], [_stretch(mark.span, number, text[number - 1]) for mark in here])
        yield f"{style.faint(str(number).rjust(margin))} {wall} {shown(line)}".rstrip()
        for (start, end), mark in sorted(zip(stretches, here, strict=True), key=lambda pair: pair[0]):
            if start == end and number != mark.span.line:
                continue
            label = f" {shown(mark.label)}" if mark.label and number == mark.span.line else ""
            under = ("^" if mark.primary else "-") * max(width(line[start:end]), 1)
            drawn = style.severity(finding.rule.severity, under + label) if mark.primary else style.faint(under + label)
            yield f"{' ' * margin} {wall} {' ' * width(line[:start])}{drawn}"


def _numbers(marks: Sequence[_Mark], count: int) -> list[int]:
    """The lines to show: where a span begins or ends, and a line that would be left out alone."""
    ends = {number for mark in marks for number in (mark.span.line, mark.span.end_line) if number <= count}
    alone = {number + 1 for number in ends if number + 2 in ends}
    return sorted(ends | alone)


def _stretch(span: Span, number: int, line: str) -> tuple[int, int]:
    """The part of the line that the span covers, as offsets into it."""
    start = span.column - 1 if number == span.line else len(line) - len(line.lstrip())
    end = span.end_column - 1 if number == span.end_line else len(line.rstrip())
    return start, max(start, end)


def _cut(line: str, stretches: list[tuple[int, int]]) -> tuple[str, list[tuple[int, int]]]:
    """An over-long line becomes a window on its first stretch, and the stretches move along."""
    if len(line) <= _WIDEST:
        return line, stretches
    left = max(min((start for start, _ in stretches), default=0) - _BEFORE, 0)
    right = min(left + _WIDEST, len(line))
    head, tail = "…" if left else "", "…" if right < len(line) else ""

    def moved(offset: int) -> int:
        return min(max(offset, left), right) - left + len(head)

    return f"{head}{line[left:right]}{tail}", [(moved(start), moved(end)) for start, end in stretches]
