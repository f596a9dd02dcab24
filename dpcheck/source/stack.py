"""Recursion deeper than Python's limit or the thread's stack allow."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from threading import Thread

T = TypeVar("T")

# Deeper than this, a walk may come to the end of the stack: some systems give it 1 MB, and Python 1,000 frames.
SHALLOW = 50
# Address space, not memory: pages are only taken when the stack grows into them.
SIZES = (512 << 20, 128 << 20, 32 << 20)
FRAMES = 100_000


def at_depth(depth: int, function: Callable[[], T]) -> T:
    """The result of `function`, which recurses as deep as something nests: called where the stack is large enough."""
    if depth > SHALLOW:
        return deep(function)
    try:
        return function()
    except RecursionError:  # the caller is deep down itself
        return deep(function)


def deep(function: Callable[[], T]) -> T:
    """The result of `function`, called in a thread with a large stack."""
    import threading

    results: list[T] = []
    errors: list[BaseException] = []

    def target() -> None:
        try:
            results.append(function())
        except BaseException as error:
            errors.append(error)

    limit, size = sys.getrecursionlimit(), threading.stack_size()
    try:
        sys.setrecursionlimit(max(limit, FRAMES))
        thread = start(target)
        thread.join()
    finally:
        threading.stack_size(size)
        sys.setrecursionlimit(limit)
    if errors:
        raise errors[0]
    return results[0]


def start(target: Callable[[], None]) -> Thread:
    """A started thread with the largest stack that can be had."""
    import threading

    for size in SIZES:
        try:
            threading.stack_size(size)
            thread = threading.Thread(target=target, daemon=True)
            thread.start()
        except (ValueError, RuntimeError):  # the system does not grant that much
            continue
        return thread
    raise MemoryError("no stack for deep recursion")
