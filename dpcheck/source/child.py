"""Work in a forked process: libcst aborts the process for which memory runs out, and some texts crash it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

LARGE = 256 << 10  # the parsing of so many bytes takes a second, and 200 MB: a hundred times what a fork does


def can_fork() -> bool:
    """To fork a process that has other threads is not safe."""
    return hasattr(os, "fork") and threading.active_count() == 1


def in_child(function: Callable[[], bytes]) -> bytes | None:
    """What `function` answers, called in a forked process; None when that comes to no end of its own.

    Raises OSError when there can be no further process.
    """
    ours, theirs = os.pipe()
    try:
        child = os.fork()
    except OSError:
        os.close(ours)
        os.close(theirs)
        raise
    if child == 0:
        code = 1
        try:
            os.close(ours)
            with os.fdopen(theirs, "wb") as pipe:
                pipe.write(function())
            code = 0
        finally:
            os._exit(code)
    os.close(theirs)
    ended = False
    try:
        with os.fdopen(ours, "rb") as pipe:
            answer = pipe.read()
        ended = True
    finally:
        if not ended:
            import signal

            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    return answer if status == 0 else None
