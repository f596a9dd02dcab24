"""Whose code is on the stack: the user's own, or that of an installed library."""

from __future__ import annotations

import pathlib
import sys
import sysconfig
from types import FrameType

from dpcheck.verify.recording import Place

_OURS = str(pathlib.Path(__file__).parents[1]) + "/"
_INSTALLED = ("/site-packages/", "/dist-packages/")


class Places:
    """Tells the user's files from installed ones. `script` is the user's even where it is installed."""

    def __init__(self, script: pathlib.Path) -> None:
        self._home = str(script.parent) + "/"
        self._libraries = tuple(
            {
                str(pathlib.Path(sysconfig.get_path(name))) + "/"
                for name in ("stdlib", "platstdlib", "purelib", "platlib")
            }
        )
        self._known: dict[str, bool] = {}

    def is_users(self, filename: str) -> bool:
        """Whether the file is the user's: not of the standard library, not installed, not dpcheck's, a real file."""
        known = self._known.get(filename)
        if known is None:
            known = self._known[filename] = self._decide(filename)
        return known

    def here(self, skip: int = 1) -> Place:
        """The innermost line of the user's code on the stack, looking from `skip` frames above the caller."""
        frame: FrameType | None = sys._getframe(skip)
        while frame is not None:
            filename = frame.f_code.co_filename
            if self.is_users(filename):
                return Place(filename, frame.f_lineno)
            frame = frame.f_back
        return Place()

    def called_by_user(self, skip: int = 1) -> bool:
        """Whether the nearest frame outside dpcheck is the user's: the script calls, not a library."""
        frame: FrameType | None = sys._getframe(skip)
        while frame is not None and frame.f_code.co_filename.startswith(_OURS):
            frame = frame.f_back
        return frame is not None and self.is_users(frame.f_code.co_filename)

    def _decide(self, filename: str) -> bool:
        if filename.startswith(("<", _OURS)) or not filename:
            return False
        if filename.startswith(self._home) and not any(part in self._home for part in _INSTALLED):
            return not any(part in filename[len(self._home) - 1 :] for part in _INSTALLED)
        if filename.startswith(self._home):
            return True
        return not filename.startswith(self._libraries) and not any(part in filename for part in _INSTALLED)
