"""Where loops are in a script: a rank that is past one waits for another that is still inside."""

from __future__ import annotations

import ast
import functools
import pathlib

from dpcheck.verify.recording import Place

_Loop = ast.For | ast.While | ast.AsyncFor


def is_past(after: Place, inside: Place) -> bool:
    """Whether `after` stands behind the innermost loop around `inside`, in the same function."""
    if after.path != inside.path or not after.path:
        return False
    scope, loop = _around(inside)
    other_scope, _ = _around(after)
    return loop is not None and scope is other_scope and after.line > (loop.end_lineno or 0)


def _around(place: Place) -> tuple[ast.AST | None, _Loop | None]:
    """The function and the innermost loop in it that hold the line."""
    scope: ast.AST | None = None
    loop: _Loop | None = None
    node: ast.AST | None = _tree(place.path)
    while node is not None:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Module)):
            scope, loop = node, None
        elif isinstance(node, (ast.For, ast.While, ast.AsyncFor)):
            loop = node
        node = next((child for child in ast.iter_child_nodes(node) if _holds(child, place.line)), None)
    return scope, loop


def _holds(node: ast.AST, line: int) -> bool:
    first: int | None = getattr(node, "lineno", None)
    last: int | None = getattr(node, "end_lineno", None)
    return first is not None and last is not None and first <= line <= last


@functools.lru_cache(maxsize=32)
def _tree(path: str) -> ast.Module | None:
    try:
        return ast.parse(pathlib.Path(path).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None
