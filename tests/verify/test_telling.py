"""A process that is stuck, or about to abort, tells what it recorded so far."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from dpcheck.verify import recording, telling

PROGRAM = """
import ctypes, pathlib, sys
from dpcheck.verify import telling
from dpcheck.verify.job import Job
from dpcheck.verify.places import Places
from dpcheck.verify.session import Session

folder, end = sys.argv[1:]
job = Job(role="rank", rank=1, world_size=2, folder=folder, shared=folder, script="train.py", module=False,
          arguments=[], directory=folder, port=0)
session = Session(job, Places(pathlib.Path("train.py")))
session.before_finish.append(lambda: session.note("last", "told at the end"))
telling.listen(session)
session.note("first", "told on the way")
print("ready", flush=True)
if end == "wait":
    ctypes.CDLL(None).pause()  # blocked in C, the interpreter let go of, as in a collective
else:
    ctypes.CDLL("libstdc++.so.6")._ZSt9terminatev()
"""


def start(folder: Path, end: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(folder), end], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def told(folder: Path) -> list[str]:
    found = telling.read(folder)
    assert found is not None
    assert (found.ending, found.rank) == ("cut", 1)
    return [note.text for note in found.notes]


def test_a_process_that_is_stuck(tmp_path: Path) -> None:
    with start(tmp_path, "wait") as process:
        assert telling.read(tmp_path) is None
        telling.ask([tmp_path], 20)
        process.kill()
    assert told(tmp_path) == ["told on the way", "told at the end"]
    assert recording.read(tmp_path) is None


@pytest.mark.skipif(sys.platform != "linux", reason="the name of the C++ library")
def test_a_process_that_aborts(tmp_path: Path) -> None:
    with start(tmp_path, "abort") as process:
        assert process.wait(20) == -6
    assert told(tmp_path) == ["told on the way", "told at the end"]


def test_nobody_to_ask(tmp_path: Path) -> None:
    began = time.monotonic()
    telling.ask([tmp_path / "gone", tmp_path], 20)
    assert time.monotonic() - began < 5
    assert telling.read(tmp_path) is None
