"""Ignore comments: `# dpcheck: ignore[name-or-code, …] reason`, behind a statement or on a line of its own above it."""

from __future__ import annotations

import dataclasses
import io
import re
import tokenize
from collections.abc import Iterator

from dpcheck.findings.finding import Span
from dpcheck.source.files import display
from dpcheck.source.text import Source

MARK = re.compile(r"#\s*dpcheck\s*:\s*ignore\b(?:\s*\[([^\[\]#]*)\])?")
NAME = re.compile(r"[^,\s](?:[^,]*[^,\s])?")
LAYOUT = frozenset({tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER})


@dataclasses.dataclass(frozen=True, slots=True)
class Ignore:
    """One ignore comment.

    `span` is the comment as far as its closing bracket, `name_spans` are those of the names. `first` to `last` are the
    lines that it covers: behind a statement's last line the whole statement (of a compound one the header), behind an
    earlier line that line. `alone` says that it has a line for itself; then it covers the statement, or inside brackets
    the line, that comes next. It is `malformed` when it names nothing in brackets.
    """

    span: Span
    names: tuple[str, ...]
    name_spans: tuple[Span, ...]
    first: int
    last: int
    alone: bool
    malformed: bool

    def covers(self, line: int) -> bool:
        """Whether the comment speaks of what starts on that line."""
        return self.first <= line <= self.last


def ignore_comments(source: Source) -> list[Ignore]:
    """The ignore comments of a file, in order. Strings hold none."""
    if b"dpcheck" not in source.data or not MARK.search(source.text):
        return []
    path = display(source.path)
    return [ignore for comment in comments(source.text) for ignore in parsed(comment, path)]


@dataclasses.dataclass(slots=True)
class Comment:
    """A comment, whatever it says. The other fields are as in `Ignore`; `column` counts from 1."""

    text: str
    line: int
    column: int
    alone: bool
    first: int
    last: int


def comments(text: str) -> list[Comment]:
    """All comments of a text, in order; of one that does not tokenize, those before the place where it fails."""
    found: list[Comment] = []
    above: list[Comment] = []  # those that wait for the next statement
    inside: list[Comment] = []  # those on their own line inside brackets, which wait for the next line of code
    first = last = 0  # the lines of the statement so far, 0 between statements
    decorated = False
    try:
        for token in tokenize.generate_tokens(io.StringIO(text, newline=None).readline):
            line = token.start[0]
            if token.type == tokenize.COMMENT:
                comment = Comment(token.string, line, token.start[1] + 1, last != line, line, line)
                found.append(comment)
                if comment.alone:
                    (inside if first else above).append(comment)
            elif token.type == tokenize.NEWLINE:
                if found and found[-1].line == last and not found[-1].alone:
                    found[-1].first = first
                for comment in above:
                    comment.last = last
                if not decorated:  # a decorator belongs to the statement below
                    above = []
                first = 0
            elif token.type not in LAYOUT:
                if not first:
                    first, decorated = line, token.string == "@"
                    for comment in above:
                        comment.first = comment.first if comment.first != comment.line else line
                for comment in inside:
                    comment.first = comment.last = line
                inside = []
                last = token.end[0]
    except (tokenize.TokenError, SyntaxError):
        pass
    return found


def parsed(comment: Comment, path: str) -> Iterator[Ignore]:
    for match in MARK.finditer(comment.text):

        def span(start: int, end: int) -> Span:
            return Span(path, comment.line, comment.column + start, comment.line, comment.column + end)

        names = [] if match[1] is None else list(NAME.finditer(match[1]))
        shift = match.start(1)
        yield Ignore(
            span=span(match.start(), match.end()),
            names=tuple(name[0] for name in names),
            name_spans=tuple(span(shift + name.start(), shift + name.end()) for name in names),
            first=comment.first,
            last=comment.last,
            alone=comment.alone,
            malformed=not names,
        )
