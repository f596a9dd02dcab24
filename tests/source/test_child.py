from __future__ import annotations

import os
import signal
import threading

import pytest

from dpcheck.source.child import can_fork, in_child

pytestmark = pytest.mark.skipif(not can_fork(), reason="there can be no other process")


def ends(by: int) -> bytes:
    os.kill(os.getpid(), by)
    return b"never"


def fails() -> bytes:
    raise ValueError


def test_what_a_child_answers() -> None:
    here = os.getpid()
    assert in_child(lambda: b"%d" % (os.getpid() == here)) == b"0"
    assert in_child(lambda: bytes(1 << 20)) == bytes(1 << 20)
    assert in_child(lambda: b"") == b""


def test_a_child_that_comes_to_no_end_of_its_own(capfd: pytest.CaptureFixture[str]) -> None:
    assert in_child(lambda: ends(signal.SIGKILL)) is None
    assert in_child(lambda: ends(signal.SIGTERM)) is None
    assert in_child(fails) is None
    assert capfd.readouterr() == ("", "")


def test_a_child_is_not_left_behind() -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(KeyboardInterrupt):
            in_child(lambda: bytes(threading.Event().wait(60)))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_none_beside_other_threads() -> None:
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    try:
        assert not can_fork()
    finally:
        stop.set()
        thread.join()
    assert can_fork()
