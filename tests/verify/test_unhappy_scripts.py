"""Scripts that break, hang, or misbehave: a sentence that says so, the exit code for it, and nothing left behind."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from dpcheck.verify import plan
from dpcheck.verify.launch import Limits
from dpcheck.verify.options import Options

SETUP = """\
import ctypes, os, shutil, subprocess, sys, tempfile, time
import torch, torch.distributed as dist, torch.nn as nn, torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset
dist.init_process_group("gloo")
rank = dist.get_rank()
generator = torch.Generator().manual_seed(5)
data = TensorDataset(torch.randn(24, 4, generator=generator), torch.randn(24, 1, generator=generator))
loader = DataLoader(data, 4, sampler=DistributedSampler(data, shuffle=False))
model = DDP(nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
def step(x, y):
    optimizer.zero_grad()
    F.mse_loss(model(x), y).backward()
    optimizer.step()
"""
LEAVE = "for number, (x, y) in enumerate(loader):\n    step(x, y)\n    if rank == 1:\n        {}\n"

Call = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def call(tmp_path: Path) -> Iterator[Call]:
    """Starts `dpcheck verify train.py`; afterwards none of its processes may be left, and no temporary folder."""
    mark = f"DPCHECK_TEST={uuid.uuid4().hex}"
    temporary = tmp_path / "temporary"
    temporary.mkdir()

    def start(body: str, *arguments: str | bytes) -> subprocess.Popen[str]:
        (tmp_path / "train.py").write_text(SETUP + dedent(body))
        return subprocess.Popen(
            [sys.executable, "-m", "dpcheck", "verify", "train.py", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env={**os.environ, "TMPDIR": str(temporary), **dict([mark.split("=")])},
        )

    yield start
    end = time.monotonic() + 5
    while (left := _with(mark)) and time.monotonic() < end:
        time.sleep(0.05)
    assert left == []
    assert list(temporary.iterdir()) == []


def _with(mark: str) -> list[str]:
    """The processes whose environment holds the mark."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_text())
        except OSError:
            continue
    return found


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (
            "def f(:",
            2,
            "script-error: every rank raised SyntaxError: invalid syntax (train.py, line 16) at train.py:16",
        ),
        ("sys.exit(3)", 2, "script-error: every rank exited with status 3 at train.py:16"),
        (LEAVE.format("sys.exit(0)"), 1, "rank 1 has left after 1 step at train.py:19"),
        (LEAVE.format("os._exit(5)"), 2, "script-error: rank 1 exited with status 5 at train.py:19"),
        (LEAVE.format("ctypes.string_at(0)"), 2, "rank 1 was killed by SIGSEGV, last seen at train.py:"),
        ("raise RuntimeError('no file \\udcff')", 2, "every rank raised RuntimeError: no file � at train.py:16"),
    ],
    ids="syntax exit-3 exit-0-early exit-at-once segmentation surrogate".split(),
)
def test_a_script_that_breaks(call: Call, body: str, status: int, said: str) -> None:
    running = call(body)
    out, err = running.communicate(timeout=60)
    assert (running.returncode, err) == (status, "")
    assert said in out.splitlines()[0]
    assert "dpcheck/verify" not in out


def test_the_traceback_is_that_of_the_rank_that_failed(call: Call) -> None:
    out, _ = call(LEAVE.format("raise RuntimeError('no label file')")).communicate(timeout=60)
    assert out.startswith("script-error: rank 1 raised RuntimeError: no label file at train.py:19\n")
    assert "rank 0       lost the connection to another rank" in out
    assert "| RuntimeError: no label file" in out
    assert "gloo" not in out


MISCHIEF = """
assert sys.argv[1:] == ["--lr", "-1", "--", "-x", os.fsdecode(b"\\xff")], sys.argv
subprocess.Popen(["sleep", "600"], start_new_session=True)
data.tensors[0][3] = float("nan")
data.tensors[0][9] = float("inf")
for x, y in loader:
    print("x" * 2_000_000)
    step(torch.nan_to_num(x, posinf=1.0), torch.nan_to_num(model(x).detach()) * 0 + y)
    shutil.rmtree(tempfile.gettempdir(), ignore_errors=True)
    os.chdir("/")
"""


def test_mischief_that_is_no_fault_of_the_update(call: Call) -> None:
    """Whatever is NaN, no text, or more than anybody reads: the ranks compute what one process does."""
    running = call(MISCHIEF, "--lr", "-1", "--", "-x", b"\xff")
    out, err = running.communicate(timeout=60)
    assert (running.returncode, err) == (0, ""), out


def test_an_exit_at_once_after_the_last_step_is_an_end(call: Call) -> None:
    out, _ = call("x, y = next(iter(loader))\nstep(x, y)\nos._exit(0)\n").communicate(timeout=60)
    assert out.startswith("equivalent: the 2 ranks together computed the update of one process in 1 step\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_end_from_outside_leaves_nothing(call: Call, number: signal.Signals) -> None:
    running = call("time.sleep(600)\n")
    time.sleep(2.5)
    running.send_signal(number)
    _, err = running.communicate(timeout=30)
    assert running.returncode == (130 if number == signal.SIGINT else -number)
    assert "Traceback" not in err


def test_a_rank_that_stands_still(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It sleeps, or waits for a file: that is nothing of what the ranks do together."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plan, "static_findings", lambda options: [])
    monkeypatch.setattr(plan, "Limits", functools.partial(Limits, idle=3.0, grace=3.0))
    (tmp_path / "train.py").write_text(SETUP + LEAVE.format("time.sleep(600)"))
    report = plan.verify(Options(script="train.py", directory=tmp_path))
    assert (report.verdict, report.findings) == ("hang", [])
    assert report.reason == "rank 0 waits at train.py:14; rank 1 stands still at train.py:19, in no collective"
