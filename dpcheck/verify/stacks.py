"""What every thread of a process was doing: written by the process on a signal, read by its conductor."""

from __future__ import annotations

import faulthandler
import os
import pathlib
import signal
import sys
from typing import TextIO

FILE = "stack.txt"
SIGNAL = signal.SIGRTMAX - 7 if sys.platform == "linux" else signal.SIGUSR2
"""One that scripts do not handle themselves: they do SIGUSR1, by which clusters tell of an end to come."""

_OURS = f'  File "{pathlib.Path(__file__).parent}{os.sep}'
_STARTED_BY = '  File "<frozen runpy>"'
_open: list[TextIO] = []


def listen(folder: pathlib.Path) -> None:
    """Write the stacks to a file in `folder` whenever the signal comes. Works while the interpreter is blocked, too."""
    file = (folder / FILE).open("w")
    _open.append(file)
    faulthandler.register(SIGNAL, file=file, all_threads=True, chain=False)


def read(folder: pathlib.Path) -> str:
    """What was written, innermost call first, less the frames and the threads of dpcheck."""
    try:
        text = (folder / FILE).read_text("utf-8", "replace")
    except FileNotFoundError:
        return ""
    threads = [thread for thread in text.split("\n\n") if f"{_OURS}telling.py" not in thread]
    lines = "\n\n".join(threads).splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith((_OURS, _STARTED_BY)))
