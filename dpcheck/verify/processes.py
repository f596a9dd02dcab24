"""Processes as `/proc` shows them: who descends from whom, and what they have used. Elsewhere nothing is known."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
from collections.abc import Iterator
from typing import NamedTuple

_TICKS = os.sysconf("SC_CLK_TCK")
_PROC = pathlib.Path("/proc")


class Use(NamedTuple):
    """What a process and its descendants have used up so far, the ended ones that were waited for included."""

    seconds: float  # of processor time
    bytes: int  # read from and written to storage


def descendants(process: int) -> list[int]:
    """The living descendants of a process, nearest first."""
    found: list[int] = []
    level = [process]
    while level:
        level = [child for parent in level for child in _children(parent)]
        found += level
    return found


def use(process: int) -> Use | None:
    """What the tree of processes from `process` down has used, or None where it cannot be seen."""
    seconds, transferred = 0.0, 0
    for member in (process, *descendants(process)):
        try:
            fields = (_PROC / str(member) / "stat").read_text("ascii", "replace").rpartition(")")[2].split()
        except OSError:
            if member == process:
                return None
            continue
        seconds += sum(map(int, fields[11:15])) / _TICKS
        with contextlib.suppress(OSError, ValueError):
            for line in (_PROC / str(member) / "io").read_text("ascii").splitlines():
                name, _, value = line.partition(":")
                if name in ("read_bytes", "write_bytes"):
                    transferred += int(value)
    return Use(seconds, transferred)


def kill_tree(process: int) -> None:
    """Kill a process, its process group and all its descendants."""
    for victim in (*descendants(process), process):
        kill(victim)
    with contextlib.suppress(OSError):
        os.killpg(process, signal.SIGKILL)


def kill(process: int, number: int = signal.SIGKILL) -> None:
    """Send a signal to a process that may have ended."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(process, number)


def end_of(process: int) -> int | None:
    """The wait status of a child, once it has ended; its process group ends with it."""
    if hasattr(os, "waitid"):  # to kill the group while its number is sure to be its own
        if os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            return None
        kill_tree(process)
    ended, status = os.waitpid(process, os.WNOHANG)
    return status if ended else None


def reap() -> Iterator[tuple[int, int]]:
    """The children that have ended since, each with its wait status."""
    while True:
        try:
            process, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if process == 0:
            return
        yield process, status


def _children(process: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in (_PROC / str(process) / "task").iterdir():
            with contextlib.suppress(OSError):
                found += map(int, (thread / "children").read_text("ascii").split())
    return found
