"""A process that hangs or aborts still tells how far it came.

A thread of its own waits to be asked, in the opening of a named pipe, which costs nothing. That the script's own
thread is blocked does not matter: what blocks it, a collective, has let go of the interpreter. And gloo, when a peer
sends what it did not expect, ends the process by an exception in a thread of its own: C++ asks us first.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pathlib
import threading
import time
from typing import TYPE_CHECKING

from dpcheck.verify import recording
from dpcheck.verify.recording import Recording

if TYPE_CHECKING:
    from dpcheck.verify.session import Session

_PIPE = "tell"
_FOLDER = "cut"
_DONE = "done"
_PAUSE = 0.02

_Handler = ctypes.CFUNCTYPE(None)
_handlers: list[object] = []


def listen(session: Session) -> None:
    """Write what was recorded so far as soon as `ask` is called on the session's folder, and before an abort."""
    pipe = session.folder / _PIPE
    os.mkfifo(pipe, 0o600)
    threading.Thread(target=_wait, args=(session, pipe), name="dpcheck", daemon=True).start()
    _before_abort(session)


def ask(folders: list[pathlib.Path], timeout: float) -> None:
    """Have the processes that write in these folders tell. Those that cannot are left alone when the time is over."""
    end = time.monotonic() + timeout
    asked = [folder for folder in folders if _knock(folder)]
    while time.monotonic() < end and any(not (folder / _FOLDER / _DONE).exists() for folder in asked):
        time.sleep(_PAUSE)


def read(folder: pathlib.Path) -> Recording | None:
    """What the process told when it was asked, if it was."""
    return recording.read(folder / _FOLDER)


def _knock(folder: pathlib.Path) -> bool:
    try:
        os.close(os.open(folder / _PIPE, os.O_WRONLY | os.O_NONBLOCK))
    except OSError:
        return False  # nobody waits at the other end
    return True


def _wait(session: Session, pipe: pathlib.Path) -> None:
    with contextlib.suppress(OSError), pipe.open("rb"):
        _tell(session)


def _tell(session: Session) -> None:
    session.inside += 1
    folder = session.folder / _FOLDER
    folder.mkdir()
    session.tell(folder)
    (folder / _DONE).touch()


def _before_abort(session: Session) -> None:
    """Have `std::terminate`, which aborts, tell first."""
    try:
        set_terminate = ctypes.CDLL("libstdc++.so.6")._ZSt13set_terminatePFvvE
    except (OSError, AttributeError):
        return  # another C++ library: an abort then leaves its last sign of life alone
    set_terminate.restype = _Handler

    def terminate() -> None:
        with contextlib.suppress(Exception):
            _tell(session)
        before()

    handler = _Handler(terminate)
    before = set_terminate(handler)
    _handlers.extend((handler, before))
