"""A process's sign of life: a file of fixed size that it overwrites at every event, and that its conductor polls."""

from __future__ import annotations

import os
import pathlib
import time

import msgspec

from dpcheck.verify import wire
from dpcheck.verify.recording import Place

FILE = "status"
_SIZE = 1024


class Status(msgspec.Struct):
    """The last event: its number, what it was, where in the user's code, and inside which collective the process is."""

    number: int = 0
    what: str = "starting"
    place: Place = Place()
    inside: str = ""
    step: int = 0
    moment: float = 0.0  # seconds since the epoch


class StatusFile:
    """Written by the process itself: one `pwrite` an event."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.last = Status()
        self._file = os.open(folder / FILE, os.O_CREAT | os.O_WRONLY, 0o600)

    def event(self, what: str, place: Place | None, *, inside: str | None, step: int) -> None:
        last = self.last
        last.number += 1
        last.what = what
        last.moment = time.time()
        last.step = step
        if place is not None:
            last.place = place
        if inside is not None:
            last.inside = inside
        data = wire.encode(last)
        if len(data) > _SIZE:
            data = wire.encode(Status(last.number, what, Place(), last.inside[:64], step, last.moment))
        os.pwrite(self._file, data.ljust(_SIZE), 0)


def read(folder: pathlib.Path) -> Status:
    """The last event of the process that writes in `folder`."""
    try:
        return wire.decode((folder / FILE).read_bytes().strip(), Status)
    except (FileNotFoundError, msgspec.MsgspecError, ValueError):
        return Status()
