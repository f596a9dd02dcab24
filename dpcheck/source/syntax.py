"""Whether a text is Python, and its parsing.

`compile` judges first, since its messages are the ones that people know. Where it says no, libcst may still say yes: it
reads newer syntax than the Python that runs it. Neither sees a text that nests so deeply that it would crash on it.
"""

from __future__ import annotations

import contextlib
import gc
import re
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

from dpcheck.source import nesting
from dpcheck.source.stack import at_depth
from dpcheck.source.text import NEWLINE, Source, Unreadable, position

if TYPE_CHECKING:
    import libcst

T = TypeVar("T")

UNPARSED = "cannot be parsed"
# What libcst accepts of Python 2, seen from the compiler's message or the line that it points to.
OUTDATED = re.compile(r"leading zeros in decimal integer|inconsistent use of tabs and spaces")
OUTDATED_LINE = re.compile(r"<>|\bexcept\s+[\w.]+\s*,\s*[a-z_]\w*\s*:")


def check_syntax(source: Source) -> None:
    """Raises Unreadable when the text is not Python."""
    on_stack(source, lambda: judge(source))


def parse(source: Source) -> libcst.Module:
    """The libcst tree. Raises Unreadable when there is none; call it from inside `on_stack`.

    A few things that Python accepts libcst does not, as `(x): int = 1`.
    """
    import libcst

    try:
        return libcst.parse_module(source.text)
    except libcst.ParserSyntaxError as error:
        match = re.search(r"error at (\d+):", error.message)  # `raw_line` may be that of the next token
        raise Unreadable(source.path, UNPARSED, max(int(match[1]) if match else error.raw_line, 1)) from None
    except RecursionError:
        raise
    except Exception:
        raise Unreadable(source.path, UNPARSED) from None
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # what a panic in Rust becomes; it cannot be imported
            raise
        raise Unreadable(source.path, UNPARSED) from None


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """No garbage collection meanwhile: a tree is up to millions of objects, none of them garbage, and all looked at."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def on_stack(source: Source, function: Callable[[], T]) -> T:
    """The result of a function that parses the source or walks its tree, called where the stack is large enough.

    Raises Unreadable when the source nests too deeply to be parsed at all.
    """
    return at_depth(depth(source), function)


def depth(source: Source) -> int:
    """How deep the source nests at most. Raises Unreadable when that is too deep to be parsed at all."""
    deepest, offset = nesting.measure(source.text)
    if offset is not None:
        raise Unreadable(source.path, "nests too deeply", *position(source.text, offset))
    return deepest


def judge(source: Source) -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(source.text, "<checked>", "exec", dont_inherit=True)
        return
    except SyntaxError as error:
        message = error.msg or "invalid syntax"
        line, column = error.lineno or 1, error.offset or 1
    except (ValueError, OverflowError, RecursionError, MemoryError, SystemError) as error:
        message, line, column = str(error) or "it exceeds a limit of the compiler", 1, 1
    verdict = Unreadable(source.path, f"is not valid Python: {message}", max(line, 1), max(column, 1))
    if OUTDATED.search(message) or any(map(OUTDATED_LINE.search, NEWLINE.split(source.text)[line - 1 : line])):
        raise verdict
    try:
        parse(source)
    except (Unreadable, RecursionError):
        raise verdict from None
