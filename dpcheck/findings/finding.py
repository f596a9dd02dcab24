"""A finding: what is wrong, where, and what else one must look at to see it. Plain values, no tree nodes."""

from __future__ import annotations

import dataclasses

from dpcheck.rule import Confidence, Rule


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Span:
    """A stretch of source. `path` is POSIX and relative to the current directory where it lies below it.

    Lines and columns count from 1, columns in characters; the end column is the one after the last character.
    """

    path: str
    line: int
    column: int
    end_line: int
    end_column: int


@dataclasses.dataclass(frozen=True, slots=True)
class Note:
    """A related span and the label that stands under it: the other end of the fault."""

    span: Span
    label: str


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """`message` names both ends, lower case, without a full stop; `label` stands under the primary span.

    `help` is one line that says how to mend it. `origin` is "static" or "measured".
    """

    rule: Rule
    message: str
    span: Span
    label: str = ""
    notes: tuple[Note, ...] = ()
    help: str = ""
    confidence: Confidence = Confidence.HIGH
    origin: str = "static"
