"""Where a record stands: line and column, computed when a report asks for it."""

from __future__ import annotations

import ast
import bisect
import itertools
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import msgspec

from dpcheck.source.child import LARGE, can_fork, in_child
from dpcheck.source.syntax import on_stack, parse, uncollected
from dpcheck.source.text import NEWLINE, Source, Unreadable

if TYPE_CHECKING:
    from dpcheck.program.records import Module, Stmt

Place: TypeAlias = tuple[int, int, int, int]
"""Line and column from which something stands, and to which, counted as in `Span`."""

START: Place = (1, 1, 1, 1)
ENCODER = msgspec.msgpack.Encoder()
PLACES = msgspec.msgpack.Decoder(list[tuple[int, int, int, int]])


# A definition with fewer lines is not taken apart.
LONG = 40
BLOCK = "if 1:\n"
BLOCK_RECORDS = 2


class Piece(NamedTuple):
    """A part of a file that can be parsed alone. It starts on line `line`, and holds the records from number `first`
    on, as far as to the number before `end`, where that is known. Indented, it is put into a `BLOCK`.
    """

    first: int
    end: int | None
    line: int
    text: str
    indented: bool = False

    @property
    def count(self) -> int | None:  # type: ignore[override]  # not the method of tuples
        return None if self.end is None else self.end - self.first


class Positions:
    """Where one file's records stand.

    libcst finds positions by generating code, at a fifth of the speed at which it parses. So of a file whose records
    are known, only the piece is parsed that holds the record: a statement of the file, or in a long function or class
    a statement of that. Python's own parser tells its lines. Where Python cannot tell them, or libcst finds other
    records in them than in the file, the whole file is parsed.
    """

    def __init__(self, source: Source, module: Module | None = None) -> None:
        self._source = source
        self._pieces = list(pieces(source.text, module)) if module is not None else []
        self._places: dict[int, list[Place]] = {}  # of the records of each piece that has been parsed
        if not self._pieces:
            self._take_whole()

    def span(self, at: int) -> Place:
        """Where record `at` stands; the start of the file for number 0.

        A compound statement stands for its header: from its keyword to its colon. Parentheses around an expression do
        not belong to it, except those of a tuple or a generator. Raises Unreadable when the file cannot be parsed.
        """
        if not at:
            return START
        index = max(bisect.bisect_right(self._pieces, at, key=lambda piece: piece.first) - 1, 0)
        piece = self._pieces[index]
        if index not in self._places:
            found = self._read(piece)
            if found is None:
                self._take_whole()
                return self.span(at)
            self._places[index] = found
        places, number = self._places[index], at - piece.first
        if number >= len(places):  # the file has been changed since it was lowered
            return START
        line, column, end_line, end_column = places[number]
        return piece.line - 1 + line, column, piece.line - 1 + end_line, end_column

    def _read(self, piece: Piece) -> list[Place] | None:
        """Where the records of a piece stand in it; None when they are not those that the file has there."""
        try:
            if not piece.indented:
                found = placed(Source(self._source.path, b"", piece.text))
            else:
                found = placed(Source(self._source.path, b"", BLOCK + piece.text))[BLOCK_RECORDS:]
                found = [(line - 1, column, end_line - 1, end_column) for line, column, end_line, end_column in found]
        except Unreadable:
            if piece.count is None:
                raise
            return None
        return found if piece.count in (None, len(found)) else None

    def _take_whole(self) -> None:
        self._pieces = [Piece(1, None, 1, self._source.text)]
        self._places.clear()


def pieces(text: str, module: Module) -> list[Piece]:
    """The pieces of a file that has these records; none if Python cannot tell them."""
    try:
        with warnings.catch_warnings(), uncollected():
            warnings.simplefilter("ignore")
            statements = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    found: list[Piece] = []
    if fit(statements, module.body):
        offsets = [0, *(match.end() for match in NEWLINE.finditer(text)), len(text)]
        lines = [text[start:end] for start, end in itertools.pairwise(offsets)]
        take_apart(statements, module.body, module.nodes, lines, found)
    return found


def take_apart(
    statements: Sequence[ast.stmt], records: Sequence[Stmt], end: int, lines: list[str], found: list[Piece]
) -> None:
    """Add the pieces of a block, whose records have numbers below `end`."""
    groups: list[tuple[int, int, list[tuple[ast.stmt, Stmt]]]] = []  # what shares a line, from one to another
    waiting = iter(records)
    for statement in statements:
        first, last = first_line(statement), statement.end_lineno or statement.lineno
        kept = [] if is_left_out(statement) else [(statement, next(waiting))]
        if groups and first <= groups[-1][1]:
            before, end_before, kept_before = groups.pop()
            first, last, kept = before, max(last, end_before), kept_before + kept
        groups.append((first, last, kept))
    groups = [group for group in groups if group[2]]
    limits = [*(kept[0][1].at for _, _, kept in groups), end]
    for (first, last, kept), (number, limit) in zip(groups, itertools.pairwise(limits), strict=True):
        indented = kept[0][0].col_offset > 0
        inner = block_of(*kept[0], lines) if len(kept) == 1 and last - first >= LONG else None
        if inner is None:
            found.append(Piece(number, limit, first, "".join(lines[first - 1 : last]), indented))
            continue
        body, members = inner
        start, margin = first_line(body[0]), lines[body[0].lineno - 1]
        header = "".join(lines[first - 1 : start - 1]) + margin[: len(margin) - len(margin.lstrip())] + "pass\n"
        found.append(Piece(number, members[0].at if members else limit, first, header, indented))
        take_apart(body, members, limit, lines, found)


def block_of(statement: ast.stmt, record: Stmt, lines: list[str]) -> tuple[Sequence[ast.stmt], Sequence[Stmt]] | None:
    """The body of a function or class and its records, if it starts on a line of its own."""
    from dpcheck.program.records import Class, Function

    if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return None
    if not isinstance(record, (Function, Class)) or not fit(statement.body, record.body):
        return None
    start = first_line(statement.body[0])
    alone = start > statement.lineno and lines[start - 1].lstrip()[:1] == "@"
    before = lines[start - 1].encode()[: statement.body[0].col_offset]
    return (statement.body, record.body) if alone or not before.strip() else None


def first_line(statement: ast.stmt) -> int:
    """The line of its first decorator, if it has any."""
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(each.lineno for each in decorators)])


def fit(statements: Sequence[ast.stmt], records: Sequence[Stmt]) -> bool:
    """Are there as many records as statements that have one?"""
    return sum(not is_left_out(statement) for statement in statements) == len(records)


def is_left_out(statement: ast.stmt) -> bool:
    """Whether a statement is none of the records. (A few more are not, as `"a" f"b"` on a line of its own.)"""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return statement.value.value is not None and not isinstance(statement.value.value, bool)
    return isinstance(statement, ast.Pass)


def placed(source: Source) -> list[Place]:
    """Where the records of a source stand, from number 1 on; found out in a process of its own if the source is large.

    Raises Unreadable.
    """
    if len(source.text) > LARGE and can_fork():
        try:
            answer = in_child(lambda: ENCODER.encode(on_stack(source, lambda: located(source))))
        except OSError:
            pass
        else:
            if answer is None:
                raise Unreadable(source.path, "cannot be parsed once more")
            return PLACES.decode(answer)
    try:
        return on_stack(source, lambda: located(source))
    except RecursionError:  # in Python 3.12, whose bound on recursion through C is a constant
        raise Unreadable(source.path, "nests too deeply") from None


def located(source: Source) -> list[Place]:
    from libcst.metadata import MetadataWrapper, PositionProvider

    from dpcheck.program.lower import lower

    nodes: list[Any] = []
    with uncollected():
        tree = parse(source)
        lower(tree, nodes)
        ranges = MetadataWrapper(tree, unsafe_skip_copy=True).resolve(PositionProvider)
        found = [bounds(node, ranges) for node in nodes[1:]]
        return [(start.line, start.column + 1, end.line, end.column + 1) for start, end in found]


def bounds(node: Any, ranges: Any) -> tuple[Any, Any]:
    """Where the node starts and ends, as a reader sees it."""
    import libcst as cst

    start, end = ranges[node].start, ranges[node].end
    if isinstance(node, cst.Match):
        end = ranges[node.whitespace_after_colon].start
    elif isinstance(node, (cst.BaseCompoundStatement, cst.ExceptHandler, cst.ExceptStarHandler, cst.MatchCase)):
        # What follows the colon: the rest of its line, or the space before a statement on the same line.
        body: Any = node.body
        end = ranges[body.header if isinstance(body, cst.IndentedBlock) else body.leading_whitespace].start
    elif isinstance(node, cst.CompFor):
        start = ranges[node.whitespace_before].end
        last = node.ifs[-1].test if node.ifs else node.iter
        end = ranges[last.rpar[-1] if last.rpar else last].end
    elif isinstance(node, (cst.Tuple, cst.GeneratorExp)) and node.lpar:
        start, end = ranges[node.lpar[-1]].start, ranges[node.rpar[0]].end
    return start, end
