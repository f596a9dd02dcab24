"""Scripts run on gloo ranks with the hooks that record, many of them for the price of one torch import.

As a program, reads one job a line from standard input, `{"source": …, "ranks": 2, "folder": …, "private": true}`, forks
a process for each rank and answers with one line, `{"codes": …, "output": …, "recordings": …, "tensors": …}`. A window
ends at every step of an optimizer; with `"steps": true` where the hooks say so, that follow the steps and forwards.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
import types
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any, NamedTuple

import msgspec
import pytest

from dpcheck.verify.recording import Collective, Recording

TIME_LIMIT = 60


class Ran(NamedTuple):
    """What the ranks of a script left: by rank its exit status, recording, and the tensors by window."""

    codes: list[int]
    output: str
    recordings: list[Recording]
    tensors: list[list[dict[str, list[float]]]]

    @property
    def collectives(self) -> list[Collective]:
        """Those of rank 0."""
        return self.recordings[0].collectives


class Hooked:
    """The program, from a test's side."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self._process = process
        self._folder = folder
        self._number = 0

    def run(
        self,
        source: str,
        *,
        ranks: int = 2,
        private: bool = True,
        steps: bool = False,
        codes: list[int] | None = None,
    ) -> Ran:
        """Run a script; its ranks must leave with `codes`, by default with 0."""
        self._number += 1
        folder = self._folder / str(self._number)
        folder.mkdir()
        job = {"source": dedent(source), "ranks": ranks, "folder": str(folder), "private": private, "steps": steps}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(job), file=self._process.stdin, flush=True)
        answer = json.loads(self._process.stdout.readline())
        assert answer["codes"] == (codes or [0] * ranks), answer["output"]
        recordings = [msgspec.convert(recording, Recording) for recording in answer["recordings"]]
        return Ran(answer["codes"], answer["output"], recordings, answer["tensors"])


@pytest.fixture(scope="session")
def hooked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hooked]:
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, "-m", "tests.verify.hooked"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=root,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    ) as process:
        yield Hooked(process, tmp_path_factory.mktemp("hooked"))
        assert process.stdin is not None
        process.stdin.close()


def serve() -> None:
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line))), flush=True)


def run(job: dict[str, Any]) -> dict[str, Any]:
    folder = Path(job["folder"])
    script = folder / "script" / "train.py"
    script.parent.mkdir()
    script.write_text(job["source"], "utf-8")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    children = []
    for rank in range(job["ranks"]):
        own = folder / f"rank{rank}"
        (own / "tmp").mkdir(parents=True)
        child = os.fork()
        if child == 0:
            signal.alarm(TIME_LIMIT)
            be_rank(job, rank, port, script, own)
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    ranks = [folder / f"rank{rank}" for rank in range(job["ranks"])]
    return {
        "codes": codes,
        "output": "".join((own / "output").read_text("utf-8") for own in ranks),
        "recordings": [json.loads((own / "recording.json").read_text("utf-8")) for own in ranks],
        "tensors": [json.loads((own / "tensors").read_text("utf-8")) for own in ranks],
    }


def be_rank(job: dict[str, Any], rank: int, port: int, script: Path, folder: Path) -> None:
    """Be one rank of the job; never returns."""
    with (folder / "output").open("wb") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    code = 1
    try:
        session = install(job, rank, script, folder)
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(job["ranks"])}
        windows = [] if job["steps"] else follow(session)
        main = types.ModuleType("__main__")
        main.__dict__["__file__"] = str(script)
        sys.modules["__main__"] = main
        sys.path[0] = str(script.parent)
        code = 0
        try:
            exec(compile(script.read_text("utf-8"), script, "exec"), main.__dict__)
        except BaseException:
            traceback.print_exc()
            code = 1
        session.inside += 1
        (folder / "tensors").write_text(json.dumps(windows), "utf-8")
        session.finish()
    except BaseException:
        traceback.print_exc()
        code = 2
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def install(job: dict[str, Any], rank: int, script: Path, folder: Path) -> Any:
    import torch

    from dpcheck.verify.hooks import collectives, effects, losses, modules, wraps
    from dpcheck.verify.job import Job
    from dpcheck.verify.places import Places
    from dpcheck.verify.session import Session

    os.environ["TMPDIR"] = str(folder / "tmp")
    tempfile.tempdir = None
    os.chdir(script.parent)
    torch.set_default_dtype(torch.float64)
    keep_process_groups()
    told = Job(
        role="rank",
        rank=rank,
        world_size=job["ranks"],
        folder=str(folder),
        shared=str(Path(job["folder"], "shared")),
        script=str(script),
        module=False,
        arguments=[],
        directory=str(script.parent),
        port=0,
    )
    session = Session(told, Places(script))
    session.files_are_private = job["private"]
    effects.install(session)
    session.models = modules.install(session)
    collectives.install(session)
    wraps.install(session)
    losses.install(session)
    if job["steps"]:
        install_steps(session)

    def look_away() -> None:
        session.inside += 1

    os.register_at_fork(after_in_child=look_away)
    return session


def install_steps(session: Any) -> None:
    from dpcheck.verify.hooks import averaging, data, forwards, gradients, handwritten, inputs, steps

    local_gradients = gradients.install(session)
    averaging.install(session)
    entering = inputs.install(session, None)
    forwards.install(session, session.models, data.install(session, None), entering, None, None)
    closing = steps.install(session, session.models, local_gradients, lambda: 0)
    handwritten.install(session, session.models, local_gradients, closing)


def keep_process_groups() -> None:
    """Let no process group be destroyed before its process ends: see tests/first_update.py."""
    import torch

    torch.distributed.destroy_process_group = lambda group=None: None


def follow(session: Any) -> list[dict[str, list[float]]]:
    """Close the window at every step, and collect the tensors of the windows."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    windows: list[dict[str, list[float]]] = []

    def after_step(*_: object) -> None:
        windows.append({key: tensor.tolist() for key, tensor in session.tensors.items()})
        session.recording.windows.append(session.window)
        session.open_next_window()

    register_optimizer_step_post_hook(after_step)
    return windows


if __name__ == "__main__":
    import torch
    import torch._dynamo  # DDP and the optimizers import it, which takes seconds: once, before the forks
    import torch.distributed.fsdp

    torch.set_num_threads(1)
    serve()
