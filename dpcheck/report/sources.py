"""The source lines that a report shows."""

from __future__ import annotations

import functools
import pathlib
import re
from collections.abc import Sequence

from dpcheck.source import text

_NEWLINE = re.compile(r"\r\n?|\n")


@functools.cache
def read_lines(path: str) -> Sequence[str]:
    """The lines of the file, as Python counts them; none if it cannot be read."""
    try:
        return _NEWLINE.split(text.read(pathlib.Path(path)).text)
    except text.Unreadable:
        return ()
