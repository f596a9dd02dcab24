"""Where a record stands: line and column, computed for one file when a report asks for it."""

from __future__ import annotations

import ast
import bisect
import warnings
from typing import Any

from dpcheck.source.stack import at_depth
from dpcheck.source.syntax import depth, parse, uncollected
from dpcheck.source.text import Source, Unreadable


class Positions:
    """Where one file's records stand.

    The file is parsed and lowered again on the first call of `span`. libcst finds positions by generating code, at a
    fifth of the speed at which it parses; so code is generated of the top-level statement alone that holds the record,
    and Python's own parser says on which line that stands.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._depth = 0
        self._tree: Any = None
        self._nodes: list[Any] = []
        self._starts: list[int] = []  # the numbers of the top-level statements that have one
        self._owners: list[tuple[int, Any]] = []  # of each of these: its place among all, and the line that it is on
        self._lines: list[int] = []  # where Python sees all top-level statements start; empty when it cannot tell
        self._ranges: dict[int, tuple[Any, int]] = {}  # by owner: ranges, and the line to add

    def span(self, at: int) -> tuple[int, int, int, int]:
        """Line and column from which, and to which, record `at` stands, counted as in `Span`.

        A compound statement stands for its header: from its keyword to its colon. Parentheses around an expression do
        not belong to it, except those of a tuple or a generator. Raises Unreadable when the file cannot be parsed.
        """
        try:
            if self._tree is None:
                self._depth = depth(self._source)
                at_depth(self._depth, self._load)
            if at >= len(self._nodes):  # the file has been changed since it was lowered
                return 1, 1, 1, 1
            ranges, shift = at_depth(self._depth, lambda: self._around(at))
        except RecursionError:  # in Python 3.12, whose bound on recursion through C is a constant
            raise Unreadable(self._source.path, "nests too deeply") from None
        start, end = bounds(self._nodes[at], ranges)
        return start.line + shift, start.column + 1, end.line + shift, end.column + 1

    def _load(self) -> None:
        from dpcheck.program.lower import lower

        nodes: list[Any] = []
        with uncollected():
            tree = parse(self._source)
            lower(tree, nodes)
        statements = [(small, line) for line in tree.body for small in smalls(line)]
        places = {id(small): place for place, (small, _) in enumerate(statements)}
        self._starts = [at for at, node in enumerate(nodes) if id(node) in places]
        self._owners = [(places[id(nodes[at])], statements[places[id(nodes[at])]][1]) for at in self._starts]
        lines = top_lines(self._source.text)
        self._lines = lines if len(lines) == len(statements) else []
        self._nodes, self._tree = nodes, tree

    def _around(self, at: int) -> tuple[Any, int]:
        """The ranges of the nodes around record `at`, and what to add to their lines."""
        from libcst.metadata import MetadataWrapper, PositionProvider

        index = bisect.bisect_right(self._starts, at) - 1
        place, line = self._owners[index]
        key = place if self._lines else -1
        if key not in self._ranges:
            part = self._tree.with_changes(header=(), body=(line,), footer=()) if self._lines else self._tree
            ranges = MetadataWrapper(part, unsafe_skip_copy=True).resolve(PositionProvider)
            start = ranges[self._nodes[self._starts[index]]].start
            self._ranges[key] = ranges, self._lines[place] - start.line if self._lines else 0
        return self._ranges[key]


def smalls(line: Any) -> Any:
    """The statements on a line of the module: a compound one is alone."""
    import libcst as cst

    return line.body if isinstance(line, cst.SimpleStatementLine) else (line,)


def top_lines(text: str) -> list[int]:
    """The line on which each top-level statement starts (its `def`, not its decorators); none if Python cannot tell."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return [statement.lineno for statement in ast.parse(text).body]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


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
