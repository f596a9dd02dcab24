"""What a process prints, kept within bounds: the beginning and the end of it, however much there is."""

from __future__ import annotations

import collections
import contextlib
import fcntl
import os
import pathlib
import time

FILE = "output.txt"

_KEPT = 1 << 16  # bytes at either end
_ROOM = 1 << 20  # bytes that the pipe holds while nobody reads
_PAUSE = 0.002  # seconds between two reads: a line at a time would cost as much as the printing


class Output:
    """The reading end of a pipe that a process prints to."""

    def __init__(self) -> None:
        self.reading, self.writing = os.pipe()
        os.set_blocking(self.reading, False)
        if hasattr(fcntl, "F_SETPIPE_SZ"):
            with contextlib.suppress(OSError):
                fcntl.fcntl(self.reading, fcntl.F_SETPIPE_SZ, _ROOM)
        self.due = 0.0  # when it is time to read again
        self.open = True
        self._head = bytearray()
        self._tail: collections.deque[bytes] = collections.deque()
        self._tail_bytes = 0
        self._lost = 0

    def drain(self) -> None:
        """Read all that has been printed."""
        while self.open:
            try:
                data = os.read(self.reading, _ROOM)
            except BlockingIOError:
                break
            if data:
                self._keep(data)
            else:
                self.close()
        self.due = time.monotonic() + _PAUSE

    def save(self, folder: pathlib.Path) -> None:
        """Write what was kept."""
        gap = f"\n… {self._lost} bytes left out …\n".encode() if self._lost else b""
        (folder / FILE).write_bytes(bytes(self._head) + gap + b"".join(self._tail))

    def close(self) -> None:
        if self.open:
            self.open = False
            os.close(self.reading)

    def _keep(self, data: bytes) -> None:
        room = _KEPT - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if not data:
            return
        if len(data) > _KEPT:
            self._lost += len(data) - _KEPT
            data = data[-_KEPT:]
        self._tail.append(data)
        self._tail_bytes += len(data)
        while self._tail_bytes - len(self._tail[0]) >= _KEPT:
            dropped = self._tail.popleft()
            self._tail_bytes -= len(dropped)
            self._lost += len(dropped)
