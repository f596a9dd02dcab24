"""Scripts run under the shim and nothing else of the verifier, many of them for the price of one torch import.

As a program, reads one line of JSON a script from standard input, forks a process for each rank and answers with a
line. What a script prints last is its result, as JSON.
"""

from __future__ import annotations

import builtins
import json
import os
import random
import signal
import subprocess
import sys
import time
import traceback
import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent
from typing import Any, NamedTuple

import msgspec
import numpy

from dpcheck.verify.job import Feed
from dpcheck.verify.recording import Note, Recording

TIME_LIMIT = 120
kept: list[object] = []


class Ran(NamedTuple):
    """What one rank left."""

    code: int
    output: str
    recording: Recording

    @property
    def result(self) -> Any:
        return json.loads(self.output.splitlines()[-1])

    def notes(self, kind: str) -> list[Note]:
        return [note for note in self.recording.notes if note.kind == kind]


class Shimmed:
    """The program, from a test's side."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self._process = process
        self._folder = folder
        self._number = 0
        self.folder_of_last = folder

    def run(self, source: str, *, ranks: int = 1, fails: bool = False, forwards: bool = False, **job: Any) -> list[Ran]:
        """Run a script on every rank. `forwards`: training forwards are counted, as the hooks of the verifier do."""
        self._number += 1
        self.folder_of_last = folder = self._folder / str(self._number)
        folder.mkdir()
        order = {"source": dedent(source), "ranks": ranks, "folder": str(folder), "forwards": forwards, "job": job}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(order), file=self._process.stdin, flush=True)
        answer = json.loads(self._process.stdout.readline())
        ran = [
            Ran(code, output, msgspec.convert(recording, Recording))
            for code, output, recording in zip(answer["codes"], answer["outputs"], answer["recordings"], strict=True)
        ]
        if not fails:
            assert answer["codes"] == [0] * ranks, "\n".join(answer["outputs"])
        return ran

    def result(self, source: str, **options: Any) -> Any:
        """What the only rank of a script tells."""
        return self.run(source, **options)[0].result


@contextmanager
def serving(folder: Path) -> Iterator[Shimmed]:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.verify.shimmed"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    ) as process:
        yield Shimmed(process, folder)
        assert process.stdin is not None
        process.stdin.close()


def serve() -> None:
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line))), flush=True)


def run(order: dict[str, Any]) -> dict[str, Any]:
    folder = Path(order["folder"])
    script = folder / "train.py"
    script.write_text(order["source"], "utf-8")
    (folder / "shared").mkdir()
    children = []
    for rank in range(order["ranks"]):
        (folder / f"rank{rank}" / "tmp").mkdir(parents=True)
        child = os.fork()
        if child == 0:
            be_rank(order, rank, script)
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    own = [folder / f"rank{rank}" for rank in range(order["ranks"])]
    recordings = [path / "recording.json" for path in own]
    return {
        "codes": codes,
        "outputs": [(path / "output.txt").read_text("utf-8") for path in own],
        "recordings": [json.loads(path.read_text("utf-8")) if path.exists() else EMPTY for path in recordings],
    }


EMPTY = {"role": "rank", "rank": 0, "world_size": 0, "dtype": "", "ending": "ended"}


def be_rank(order: dict[str, Any], rank: int, script: Path) -> None:
    """Be one rank; never returns."""
    folder = script.parent / f"rank{rank}"
    code = 1
    try:
        os.setsid()
        signal.alarm(TIME_LIMIT)
        with (folder / "output.txt").open("wb") as output:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
        code = execute(order, rank, script, folder)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def execute(order: dict[str, Any], rank: int, script: Path, folder: Path) -> int:
    import torch

    from dpcheck.verify import shim
    from dpcheck.verify.job import Job
    from dpcheck.verify.places import Places
    from dpcheck.verify.session import Session

    job = Job(
        **{
            "role": "rank",
            "rank": rank,
            "world_size": order["ranks"],
            "folder": str(folder),
            "shared": str(script.parent / "shared"),
            "script": str(script),
            "module": False,
            "arguments": [],
            "directory": str(script.parent),
            "port": 0,
            **order["job"],
            "feed": msgspec.convert(order["job"].get("feed"), Feed | None),
        }
    )
    ranks = str(job.world_size)
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=ranks, LOCAL_WORLD_SIZE=ranks, GROUP_RANK="0")
    os.environ.update(TORCHELASTIC_RUN_ID="test", MASTER_ADDR="127.0.0.1", MASTER_PORT="0", HF_HUB_OFFLINE="1")
    os.chdir(script.parent)
    torch.seed()
    random.seed()
    numpy.random.seed()
    session = Session(job, Places(script))
    shim.install(session)
    if order["forwards"]:
        count_forwards(session)
    main: Any = types.ModuleType("__main__")
    main.__file__ = str(script)
    main.__builtins__ = builtins
    kept.append(sys.modules["__main__"])
    sys.modules["__main__"] = main
    sys.argv = [str(script)]
    sys.path.insert(0, str(script.parent))
    code = 0
    try:
        exec(compile(script.read_bytes(), str(script), "exec"), main.__dict__)
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else 1
    session.finish()
    # What others still read from this process's sockets is not to be lost.
    time.sleep(0.2 if torch.distributed.is_initialized() else 0)
    return code


def count_forwards(session: Any) -> None:
    from torch import nn

    original = nn.Module.__call__

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if session.training_forward or not self.training:
            return original(self, *args, **kwargs)
        session.training_forward += 1
        try:
            return original(self, *args, **kwargs)
        finally:
            session.training_forward -= 1

    nn.Module.__call__ = call


if __name__ == "__main__":
    import torch
    import torch.distributed
    import torch.multiprocessing

    torch.set_num_threads(1)
    serve()
