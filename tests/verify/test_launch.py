"""Processes of a run: whatever the script does, there is an answer within the limits, and nothing is left behind."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import textwrap
import time
import uuid
from collections.abc import Callable, Iterator, Sequence

import pytest

from dpcheck.verify import launch, output, sandbox
from dpcheck.verify.job import Job
from dpcheck.verify.launch import Limits, Outcome, Servers
from dpcheck.verify.recording import Recording
from dpcheck.verify.status import Status

ROOT = pathlib.Path(__file__).parent.parent.parent
HOOK = ["tests.verify.fake_hook:install"]
LIMITS = Limits(total=60.0, idle=4.0, grace=2.0)
MARK = "DPCHECK_TEST_MARK"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="counts what is left through /proc")

GROUP = """\
import os, sys, time, signal
import torch, torch.distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank()
"""
TRAINING = (
    GROUP
    + """\
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def step():
    optimizer.zero_grad()
    model(torch.randn(8, 4)).sum().backward()
    optimizer.step()
"""
)


def environment(mark: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), MARK: mark}


def marked(mark: str) -> set[int]:
    """The living processes that were started with the mark in their environment."""
    found = set()
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                alive = entry.joinpath("stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
                if alive and f"{MARK}={mark}".encode() in entry.joinpath("environ").read_bytes():
                    found.add(int(entry.name))
            except OSError:
                continue
    return found


def mounts() -> list[str]:
    return pathlib.Path("/proc/self/mountinfo").read_text().splitlines()


def shared_memory() -> set[str]:
    return {entry.name for entry in pathlib.Path("/dev/shm").iterdir()}


def wait_until(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()


@dataclasses.dataclass
class Bench:
    """Runs scripts that are given as text, each in a folder of its own, and counts what they leave."""

    servers: Servers
    mark: str
    folder: pathlib.Path
    count: int = 0

    def jobs(self, text: str, ranks: int = 2, *, name: str = "train.py", **fields: object) -> list[Job]:
        self.count += 1
        user = self.folder / f"user-{self.count}"
        user.mkdir()
        (user / name).parent.mkdir(parents=True, exist_ok=True)
        (user / name).write_text(textwrap.dedent(text), "utf-8")
        return self.jobs_in(user, ranks, script=str(user / name), **fields)

    def jobs_in(self, user: pathlib.Path, ranks: int, *, script: str, **fields: object) -> list[Job]:
        self.count += 1
        shared = self.servers.folder / f"run-{self.count}"
        common: dict[str, object] = {
            "role": "rank" if ranks > 1 else "reference",
            "world_size": ranks,
            "shared": str(shared),
            "script": script,
            "module": False,
            "arguments": [],
            "directory": str(user),
            "port": launch.free_port(),
            **fields,
        }
        jobs = []
        for rank in range(ranks):
            folder = shared / f"process-{rank}"
            folder.mkdir(parents=True)
            jobs.append(Job(rank=rank, folder=str(folder), **common))  # type: ignore[arg-type]
        return jobs

    def run(self, *runs: list[Job], limits: Limits = LIMITS) -> list[Outcome]:
        before = marked(self.mark), mounts(), shared_memory()
        outcomes = self.servers.run([job for run in runs for job in run], limits)
        assert wait_until(lambda: marked(self.mark) == before[0]), "processes are left"
        assert (mounts(), shared_memory()) == before[1:]
        return outcomes

    def text(self, text: str, ranks: int = 2, *, limits: Limits = LIMITS, **fields: object) -> list[Outcome]:
        return self.run(self.jobs(text, ranks, **fields), limits=limits)  # type: ignore[arg-type]


def start(folder: pathlib.Path, **options: object) -> Iterator[Bench]:
    """A bench, and what must be gone when it is: every process, and the temporary folder."""
    mark = uuid.uuid4().hex
    kept, tempfile.tempdir = tempfile.tempdir, str(folder)
    try:
        with Servers(2, environment=environment(mark), installers=HOOK, **options) as servers:  # type: ignore[arg-type]
            servers.prepare()
            yield Bench(servers, mark, folder / "users")
    finally:
        tempfile.tempdir = kept
    assert marked(mark) == set()
    assert not servers.folder.exists()


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    folder = tmp_path_factory.mktemp("bench")
    (folder / "users").mkdir()
    yield from start(folder, space=64 << 20)


def recorded(outcome: Outcome) -> Recording:
    assert outcome.end == "finished", (outcome.end, outcome.output, outcome.stacks)
    assert outcome.recording is not None
    return outcome.recording


def line_of(outcome: Outcome, words: str) -> int:
    """The line of the script that has the words."""
    lines = pathlib.Path(outcome.job.directory, outcome.job.script).read_text("utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if words in line)


# The script trains.


def test_a_run_is_stopped_after_its_steps(bench: Bench) -> None:
    outcomes = bench.text(TRAINING + "for i in range(10):\n    print('step', i)\n    step()\n")
    for outcome in outcomes:
        record = recorded(outcome)
        assert record.ending == "stopped"
        assert outcome.status.step == 3
        assert outcome.output.split("\n")[:4] == ["step 0", "step 1", "step 2", "step 3"]
        assert outcome.exit_status is None
        assert outcome.signal is None


def test_the_environment_is_that_of_torchrun(bench: Bench) -> None:
    names = "RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR OMP_NUM_THREADS TORCHELASTIC_RUN_ID".split()
    text = f"import os, json\nprint(json.dumps([os.environ[name] for name in {names}]))"
    for rank, outcome in enumerate(bench.text(text)):
        assert json.loads(outcome.output) == [str(rank), "2", str(rank), "2", "127.0.0.1", "1", "dpcheck"]
        assert recorded(outcome).ending == "ended"


def test_local_ranks_begin_anew_on_each_machine(bench: Bench) -> None:
    names = "RANK LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE".split()
    text = f"import os, json\nprint(json.dumps([os.environ[name] for name in {names}]))"
    for rank, outcome in enumerate(bench.text(text, nodes=2)):
        assert json.loads(outcome.output) == [str(rank), "0", "1", str(rank), "2"]


def test_a_rank_that_leaves_early_ends_the_others_collective(bench: Bench) -> None:
    outcomes = bench.text(GROUP + "if rank == 1:\n    sys.exit(0)\ndist.barrier()\n")
    left, waiting = recorded(outcomes[1]), recorded(outcomes[0])
    assert (left.ending, left.status) == ("ended", 0)
    assert waiting.ending == "raised"
    assert waiting.failure is not None
    assert waiting.failure.collective == "barrier"
    assert waiting.failure.place.line == line_of(outcomes[0], "dist.barrier")
    assert "dpcheck" not in waiting.failure.traceback


def test_a_rank_that_left_before_the_group_was_made(bench: Bench) -> None:
    text = "import os, sys\nif os.environ['RANK'] == '1':\n    sys.exit()\n" + GROUP
    waiting, left = bench.text(text)
    assert recorded(left).ending == "ended"
    assert (waiting.end, waiting.left) == ("hung", [1])
    assert f"line {line_of(waiting, 'init_process_group')} in <module>" in waiting.stacks


# The script ends some other way.


def test_a_killed_rank(bench: Bench) -> None:
    text = TRAINING + "for i in range(3):\n    if i == 1 and rank == 1:\n        os.kill(os.getpid(), 9)\n    step()\n"
    survivor, killed = bench.text(text)
    assert (killed.end, killed.signal, killed.recording, killed.status.step) == ("killed", "SIGKILL", None, 1)
    failure = recorded(survivor).failure
    assert failure is not None
    assert failure.place.line == line_of(survivor, "backward")
    assert failure.collective is not None


@pytest.mark.parametrize(
    ("ending", "name"), [("os.abort()", "SIGABRT"), ("import ctypes; ctypes.string_at(0)", "SIGSEGV")]
)
def test_a_process_that_is_gone_at_once(bench: Bench, ending: str, name: str) -> None:
    (outcome,) = bench.text(f"{TRAINING}step()\nprint('so far')\n{ending}\n", ranks=1)
    assert (outcome.end, outcome.exit_status, outcome.signal, outcome.recording) == ("killed", None, name, None)
    assert outcome.status.step == 1
    assert outcome.output == "so far\n"


@pytest.mark.parametrize(("code", "ending"), [(3, "exited"), (0, "ended")])
def test_an_exit_at_once_leaves_a_recording(bench: Bench, code: int, ending: str) -> None:
    (outcome,) = bench.text(f"{TRAINING}step()\nprint('so far')\nos._exit({code})\n", ranks=1)
    record = recorded(outcome)
    assert (record.ending, record.status, record.left_at.line) == (ending, code, line_of(outcome, "os._exit"))
    assert outcome.output == "so far\n"


def test_a_fork_that_exits_at_once_leaves_none(bench: Bench) -> None:
    (outcome,) = bench.text("import os\nif os.fork() == 0:\n    os._exit(4)\nos.wait()\n", ranks=1)
    assert (recorded(outcome).ending, recorded(outcome).status) == ("ended", 0)


@pytest.mark.parametrize(
    ("code", "status", "ending"), [("5", 5, "exited"), ("'sorry'", 1, "exited"), ("0", 0, "ended")]
)
def test_sys_exit(bench: Bench, code: str, status: int, ending: str) -> None:
    (outcome,) = bench.text(f"import sys\nsys.exit({code})\n", ranks=1)
    assert (recorded(outcome).ending, recorded(outcome).status) == (ending, status)
    assert outcome.output == ("sorry\n" if "sorry" in code else "")


@pytest.mark.parametrize(
    ("text", "kind", "line", "message"),
    [
        ("def f():\n    return 1 +\n", "SyntaxError", 2, "invalid syntax"),
        ("import os\nimport no_such_package\n", "ModuleNotFoundError", 2, "No module named 'no_such_package'"),
        ("import json\njson.loads('{')\n", "json.decoder.JSONDecodeError", 2, "Expecting property name"),
        ("def f(n):\n    return f(n + 1)\nf(0)\n", "RecursionError", 2, "maximum recursion depth exceeded"),
        ("try:\n    1 / 0\nexcept ZeroDivisionError:\n    raise KeyError('x')\n", "KeyError", 4, "'x'"),
        ("class E(Exception):\n    def __str__(self):\n        raise E\nraise E\n", "__main__.E", 4, ""),
    ],
)
def test_an_exception_of_the_script(bench: Bench, text: str, kind: str, line: int, message: str) -> None:
    (outcome,) = bench.text(text, ranks=1)
    failure = recorded(outcome).failure
    assert failure is not None
    assert recorded(outcome).ending == "raised"
    assert (failure.type, failure.place.line, failure.collective) == (kind, line, None)
    assert failure.place.path == outcome.job.script
    assert failure.message.startswith(message)
    assert failure.traceback in outcome.output
    assert "dpcheck/verify" not in failure.traceback


def test_a_script_that_is_not_there(bench: Bench) -> None:
    jobs = bench.jobs("", ranks=1)
    pathlib.Path(jobs[0].script).unlink()
    (outcome,) = bench.run(jobs)
    failure = recorded(outcome).failure
    assert failure is not None
    assert failure.type == "FileNotFoundError"
    assert jobs[0].script in failure.message


def test_threads_that_outlive_the_last_line_are_waited_for(bench: Bench) -> None:
    text = """
        import threading, time
        from concurrent.futures import ThreadPoolExecutor
        ThreadPoolExecutor(1).submit(print, "pool")
        def work():
            time.sleep(0.3)
            print("done")
        threading.Thread(target=work).start()
    """
    (outcome,) = bench.text(text, ranks=1)
    assert recorded(outcome).ending == "ended"
    assert outcome.output == "pool\ndone\n"


# The script hangs.


def test_hangs(bench: Bench) -> None:
    """Four runs at once: asleep, a collective that one rank never enters, deaf to everything, and a busy one."""
    asleep = bench.jobs("import time\ntime.sleep(1000)\n")
    unmatched = bench.jobs(GROUP + "if rank == 0:\n    dist.barrier()\ntime.sleep(1000)\n")
    deaf = bench.jobs(
        """
        import signal, sys, time
        def ignore(*_):
            raise RuntimeError("not now")
        for number in range(1, 32):
            if number not in (signal.SIGKILL, signal.SIGSTOP):
                signal.signal(number, ignore)
        sys.excepthook = lambda *_: time.sleep(1000)
        while True:
            try:
                time.sleep(0.1)
            except BaseException:
                pass
        """,
        ranks=1,
    )
    busy = bench.jobs("while True:\n    try:\n        pass\n    except BaseException:\n        pass\n", ranks=1)
    outcomes = bench.run(asleep, unmatched, deaf, busy, limits=Limits(total=9.0, idle=4.0, grace=2.0))
    assert [outcome.end for outcome in outcomes] == ["hung"] * 5 + ["timed out"]
    assert all(outcome.recording is None or outcome.recording.ending == "cut" for outcome in outcomes)
    assert outcomes[2].status.inside == "barrier"
    assert outcomes[2].status.place.line == line_of(outcomes[2], "dist.barrier")
    for index, words in ((0, "sleep"), (1, "sleep"), (2, "dist.barrier"), (3, "sleep"), (4, "sleep(0.1)")):
        stacks = outcomes[index].stacks
        assert f'"{outcomes[index].job.script}", line {line_of(outcomes[index], words)} in <module>' in stacks
        assert "dpcheck/verify" not in stacks
    assert all(outcome.left == [] for outcome in outcomes)


def test_an_exception_hook_that_never_returns_loses_nothing(bench: Bench) -> None:
    (outcome,) = bench.text("import sys, time\nsys.excepthook = lambda *_: time.sleep(99)\n1 / 0\n", ranks=1)
    failure = recorded(outcome).failure
    assert failure is not None
    assert failure.type == "ZeroDivisionError"


def test_a_loop_that_catches_everything_is_stopped(bench: Bench) -> None:
    text = TRAINING + "while True:\n    try:\n        step()\n    except BaseException:\n        pass\n"
    for outcome in bench.text(text):
        assert recorded(outcome).ending == "stopped"


# The script prints, writes, starts and connects.


def test_much_output(bench: Bench) -> None:
    text = "import sys\nprint('first')\nfor _ in range(200):\n    print('x' * (1 << 20))\nprint('last')\n"
    (outcome,) = bench.text(text, ranks=1)
    assert recorded(outcome).ending == "ended"
    assert outcome.seconds < 20
    whole = pathlib.Path(outcome.job.folder, output.FILE).read_bytes()
    assert whole.startswith(b"first\nx")
    assert b"bytes left out" in whole
    assert outcome.output.endswith("x\nlast\n")
    assert len(whole) < 1 << 20


def test_a_full_disk(bench: Bench) -> None:
    text = "block = bytes(1 << 20)\nwith open('big', 'wb') as file:\n    while True:\n        file.write(block)\n"
    (outcome,) = bench.text(text, ranks=1)
    failure = recorded(outcome).failure
    assert failure is not None
    assert (failure.type, failure.message[:9]) == ("OSError", "[Errno 28")
    assert outcome.notes == ["the script filled the 64 MiB that a run may write"]
    assert not pathlib.Path(outcome.job.directory, "big").exists()


def test_what_is_written_is_private_to_the_run(bench: Bench) -> None:
    text = """
        import os, pathlib, shutil, tempfile, time
        print(sorted(os.listdir()), pathlib.Path("data").read_text())
        if os.environ["RANK"] == "0":
            pathlib.Path("data").write_text("changed")
            pathlib.Path("out").mkdir()
            pathlib.Path("out/model").write_text("saved")
            os.remove("old")
            shutil.rmtree("folder")
            os.mkdir("folder")
            os.rename("out", "results")
            pathlib.Path("/dev/shm/dpcheck-test").write_text("x")
            pathlib.Path("/tmp/dpcheck-test").write_text("x")
            pathlib.Path(tempfile.gettempdir(), "t").write_text("x")
            pathlib.Path("done").touch()
        while not os.path.exists("done"):
            time.sleep(0.01)
        print(pathlib.Path("results/model").read_text(), sorted(os.listdir()), os.listdir("folder"))
        print(os.path.exists("/dev/shm/dpcheck-test"), os.path.exists("/tmp/dpcheck-test"))
        print(os.listdir(tempfile.gettempdir()))
    """
    jobs = bench.jobs(text)
    user = pathlib.Path(jobs[0].directory)
    (user / "folder").mkdir()
    for name in ("data", "old", "folder/file"):
        (user / name).write_text("real")
    reference = bench.jobs_in(user, 1, script=jobs[0].script)
    expected = (
        "['data', 'folder', 'old', 'train.py'] real\nsaved ['data', 'done', 'folder', 'results', 'train.py'] []\n"
        "True True\n['t']\n"
    )
    for outcome in (*bench.run(jobs), *bench.run(reference)):
        recorded(outcome)
        if outcome.job.rank == 0:
            assert outcome.output == expected
        else:
            assert outcome.output.splitlines()[1:] == expected.splitlines()[1:]
        changed = {str(user / name) for name in ("data", "done", "old", "results/model", "folder/file")}
        assert changed - {str(user / "folder/file")} | {"/tmp/dpcheck-test"} <= set(outcome.written)
        assert set(outcome.written) <= changed | {"/tmp/dpcheck-test", str(user / "folder"), str(user / "out")}
    assert sorted(path.name for path in user.iterdir()) == ["data", "folder", "old", "train.py"]
    assert (user / "data").read_text() == (user / "folder/file").read_text() == "real"
    assert not pathlib.Path("/tmp/dpcheck-test").exists()


def test_children_and_daemons(bench: Bench) -> None:
    text = """
        import os, subprocess, sys, time
        subprocess.Popen(["sleep", "1000"])
        subprocess.Popen(["sh", "-c", "trap '' TERM HUP; setsid sleep 1000 & sleep 1000"], start_new_session=True)
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                time.sleep(1000)
            os._exit(0)
        if os.fork() == 0:
            print("child", flush=True)
            raise ValueError("in the child")   # and so out of the script's end
        os.wait(); os.wait()
        time.sleep(0.2)
        print("parent")
    """
    (outcome,) = bench.text(text, ranks=1)
    assert (recorded(outcome).ending, recorded(outcome).failure) == ("ended", None)
    assert "child\n" in outcome.output
    assert "ValueError: in the child" in outcome.output
    assert outcome.output.endswith("parent\n")


def test_another_working_directory(bench: Bench) -> None:
    text = "import os\nos.mkdir('sub')\nos.chdir('sub')\nopen('here', 'w').close()\nos.chdir('/')\n1 / 0\n"
    jobs = bench.jobs(text, ranks=1)
    jobs[0].script = "train.py"
    (outcome,) = bench.run(jobs)
    failure = recorded(outcome).failure
    assert failure is not None
    assert failure.place.path == str(pathlib.Path(jobs[0].directory, "train.py"))
    assert str(pathlib.Path(jobs[0].directory, "sub/here")) in outcome.written


def test_the_network_is_the_runs_own(bench: Bench) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        text = f"""
            import socket
            own = socket.create_server(("127.0.0.1", 0))
            socket.create_connection(own.getsockname())
            taken = socket.create_server(("127.0.0.1", {port}))   # taken outside of the run only
            taken.close()
            try:
                socket.create_connection(("127.0.0.1", {port}))
            except ConnectionRefusedError:
                print("refused")
        """
        (outcome,) = bench.text(text, ranks=1)
    assert outcome.output == "refused\n"


# The script is a program of its own.


def test_main_is_the_script(bench: Bench) -> None:
    text = """
        import __main__, inspect, json, os, pickle, sys
        class Thing:
            pass
        assert __name__ == "__main__" and sys.modules["__main__"].Thing is Thing
        assert type(pickle.loads(pickle.dumps(Thing()))) is Thing
        assert "class Thing" in inspect.getsource(Thing)
        assert __spec__ is None and __package__ is None and __builtins__ is __import__("builtins")
        import sibling
        assert not any(name.startswith("dpcheck") for name in vars(__main__))
        print(json.dumps([__file__, sys.argv, sys.path[0], sibling.NAME]))
    """
    jobs = bench.jobs(text, ranks=1, name="deep/train.py", arguments=["--lr", "1"])
    user = pathlib.Path(jobs[0].directory)
    (user / "deep/sibling.py").write_text("NAME = __name__")
    jobs[0].script = "deep/train.py"
    (outcome,) = bench.run(jobs)
    expected = [str(user / "deep/train.py"), ["deep/train.py", "--lr", "1"], str(user / "deep"), "sibling"]
    assert json.loads(outcome.output) == expected, outcome.output


def test_a_module_with_relative_imports(bench: Bench) -> None:
    text = """
        import json, sys
        from . import tools
        from .tools import where
        print(json.dumps([__name__, __package__, __spec__.name, __file__, sys.argv, sys.path[0], where()]))
    """
    jobs = bench.jobs(text, ranks=1, name="pkg/sub/train.py", arguments=["a"])
    user = pathlib.Path(jobs[0].directory)
    for name in ("pkg/__init__.py", "pkg/sub/__init__.py"):
        (user / name).write_text("")
    (user / "pkg/sub/__main__.py").write_text("from .tools import where\nwhere()\n1 / 0\n")
    (user / "pkg/sub/tools.py").write_text("def where():\n    return __name__\n")
    as_module = bench.jobs_in(user, 1, script="pkg.sub.train", module=True, arguments=["a"])
    as_package = bench.jobs_in(user, 1, script="pkg.sub", module=True)
    missing = bench.jobs_in(user, 1, script="pkg.none", module=True)
    run, package, none = bench.run(as_module, as_package, missing)
    file = str(user / "pkg/sub/train.py")
    expected = ["__main__", "pkg.sub", "pkg.sub.train", file, [file, "a"], str(user), "pkg.sub.tools"]
    assert json.loads(run.output) == expected, run.output
    failure = recorded(package).failure
    assert failure is not None
    assert (failure.place.path, failure.place.line) == (str(user / "pkg/sub/__main__.py"), 3)
    failure = recorded(none).failure
    assert failure is not None
    assert (failure.type, failure.message) == ("ModuleNotFoundError", "No module named 'pkg.none'")


def test_seeds_are_those_of_separate_processes(bench: Bench) -> None:
    text = """
        import json, random, numpy, torch
        print(json.dumps([hash("word"), torch.rand(1).item(), random.random(), numpy.random.rand()]))
    """
    free, seeded = bench.jobs(text), bench.jobs(text, seed=7)
    reference, again = bench.jobs(text, ranks=1), bench.jobs(text, ranks=1)
    outcomes = bench.run(free, seeded, reference, again)
    first, second, third, fourth, fifth, sixth = (json.loads(outcome.output) for outcome in outcomes)
    assert all(one != other for one, other in zip(first, second, strict=True))
    assert third[1:] == fourth[1:]
    assert first[0] == third[0] == fifth[0] == sixth[0], "references have the string hashes of rank 0"
    assert len({draw for values in (first, second, third, fifth, sixth) for draw in values[1:]}) == 15


# Nothing is private.


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    folder = tmp_path_factory.mktemp("bare")
    (folder / "users").mkdir()
    yield from start(folder, isolate=())


def test_without_a_sandbox_processes_end_and_files_stay(bare: Bench) -> None:
    text = GROUP + textwrap.dedent("""
        import subprocess, tempfile
        if rank == 0:
            subprocess.Popen(["sleep", "1000"], start_new_session=True)
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    time.sleep(1000)
                os._exit(0)
            open("file", "w").close()
        print(tempfile.gettempdir())
        dist.barrier()
        if rank == 1:
            time.sleep(1000)
        dist.barrier()
    """)
    outcomes = bare.text(text)
    assert bare.servers.isolated == []
    assert [outcome.end for outcome in outcomes] == ["hung", "hung"]
    for outcome, words in zip(
        outcomes, ("    time.sleep(1000)\ndist.barrier()", "time.sleep(1000)\ndist"), strict=True
    ):
        assert outcome.left == []
        assert "in <module>" in outcome.stacks, words
    assert pathlib.Path(outcomes[0].job.directory, "file").exists()
    assert all(outcome.output.startswith(str(bare.servers.folder)) for outcome in outcomes)


# The conductor goes away.

CONDUCTOR = """
import pathlib, sys
from dpcheck.verify import launch
from dpcheck.verify.job import Job
text = "import os, subprocess, time\\nsubprocess.Popen(['setsid', 'sleep', '1000'])\\nprint(1)\\ntime.sleep(1000)\\n"
user = pathlib.Path("user").absolute()
user.mkdir()
(user / "train.py").write_text(text)
with launch.Servers(1, installers=["tests.verify.fake_hook:install"], isolate=sys.argv[1].split()) as servers:
    job = servers.folder / "job"
    job.mkdir()
    def tell(_, statuses):
        if statuses[0].what == "script" and not (user / "started").exists():
            (user / "started").touch()
            print(",".join(servers.isolated), flush=True)
    servers.run([Job("reference", 0, 1, str(job), str(job), "train.py", False, [], str(user), 1)], progress=tell)
"""


@pytest.mark.parametrize(
    ("number", "isolate"),
    [
        (signal.SIGKILL, "files processes network"),
        (signal.SIGKILL, ""),
        (signal.SIGTERM, "files"),
        (signal.SIGINT, "files processes network"),
    ],
)
def test_the_conductor_ends(tmp_path: pathlib.Path, number: int, isolate: str) -> None:
    mark = uuid.uuid4().hex
    before = mounts(), shared_memory()
    (tmp_path / "temporary").mkdir()
    conductor = subprocess.Popen(
        [sys.executable, "-c", CONDUCTOR, isolate],
        cwd=tmp_path,
        env={**environment(mark), "TMPDIR": str(tmp_path / "temporary")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        assert conductor.stdout is not None
        assert conductor.stdout.readline() == f"{isolate.replace(' ', ',')}\n".encode()
        assert wait_until(lambda: len(marked(mark)) >= 5), "conductor, warden, server, job, and what it started"
        conductor.send_signal(number)
        conductor.wait(20)
        assert wait_until(lambda: marked(mark) == set())
        assert wait_until(lambda: list((tmp_path / "temporary").iterdir()) == [])
        assert (mounts(), shared_memory()) == before
    finally:
        conductor.kill()
        conductor.communicate()


@pytest.mark.skipif(os.getuid() != 0, reason="becomes another user")
def test_an_ordinary_user_has_a_sandbox_too(tmp_path: pathlib.Path) -> None:
    """In a user namespace, where the kernel lets a user make one."""
    become = ["setpriv", "--reuid=1234", "--regid=1234", "--clear-groups", "--inh-caps=-all"]
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    candidates = [pathlib.Path(sys.executable).resolve(), pathlib.Path("/usr/bin", version)]
    variables = environment("nobody")
    variables["PYTHONPATH"] += os.pathsep + sysconfig.get_path("purelib")

    def can(command: str) -> bool:
        return subprocess.run([*become, "sh", "-c", command], env=variables, capture_output=True).returncode == 0

    interpreter = next((path for path in candidates if can(f"{path} -c 'import torch, dpcheck'")), None)
    if interpreter is None or not can("unshare -Ur true"):
        pytest.skip("another user has no Python with torch, or may make no namespace")
    folder = pathlib.Path(tempfile.mkdtemp(dir="/tmp"))
    program = textwrap.dedent("""
        import pathlib, sys
        from dpcheck.verify import launch
        from dpcheck.verify.job import Job
        text = '''
        import os, pathlib, shutil
        pathlib.Path("data").write_text("changed")
        shutil.rmtree("folder"); os.mkdir("folder"); os.rename("folder", "other")
        print(os.getuid(), [line for line in open("/proc/self/status") if line.startswith("CapEff")])
        '''
        user = pathlib.Path("user").absolute()
        (user / "folder").mkdir(parents=True)
        (user / "folder/file").touch()
        (user / "data").write_text("real")
        (user / "train.py").write_text("\\n".join(line.strip() for line in text.splitlines()))
        with launch.Servers(1, installers=["tests.verify.fake_hook:install"]) as servers:
            job = servers.folder / "job"
            job.mkdir()
            (outcome,) = servers.run([Job("reference", 0, 1, str(job), str(job), "train.py", False, [], str(user), 1)])
            print(servers.isolated, servers.notes, outcome.notes, outcome.end, outcome.output, outcome.written)
        print((user / "data").read_text(), (user / "folder/file").exists(), (user / "other").exists())
    """)
    try:
        os.chown(folder, 1234, 1234)
        done = subprocess.run(
            [*become, str(interpreter), "-c", program],
            cwd=folder,
            env={**variables, "TMPDIR": str(folder), "HOME": str(folder)},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    finally:
        shutil.rmtree(folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("['files', 'processes', 'network'] [] [] finished 1234 ['CapEff:\\t0000000000000000")
    assert done.stdout.endswith("real True False\n")


@pytest.mark.skipif(os.getuid() != 0, reason="mounts")
def test_what_is_mounted_below_is_seen_and_private_too(tmp_path: pathlib.Path) -> None:
    program = textwrap.dedent("""
        import pathlib
        from dpcheck.verify import launch, linux
        from dpcheck.verify.job import Job
        linux.unshare(linux.NEW_MOUNTS)
        linux.mount("none", "/", flags=linux.RECURSIVE | linux.PRIVATE)
        user = pathlib.Path("user").absolute()
        inner = user / "data\\ set, 1:2"   # what the mount table and mount options escape
        inner.mkdir(parents=True)
        linux.mount("tmpfs", str(inner), "tmpfs")
        (inner / "file").write_text("real")
        (user / "train.py").write_text(f"p = {str(inner / 'file')!r}; print(open(p).read()); open(p, 'w').write('no')")
        with launch.Servers(1, installers=["tests.verify.fake_hook:install"]) as servers:
            job = servers.folder / "job"
            job.mkdir()
            (outcome,) = servers.run([Job("reference", 0, 1, str(job), str(job), "train.py", False, [], str(user), 1)])
            print(outcome.output.strip(), outcome.notes, outcome.written == [str(inner / "file")])
        print((inner / "file").read_text())
    """)
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=environment("none"),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, "real [] True\nreal\n"), done.stderr


def test_all_ends_with_the_warden(tmp_path: pathlib.Path) -> None:
    bench = next(starting := start(tmp_path))
    bench.folder.mkdir()
    jobs = bench.jobs("import os, time\nos.fork()\nif os.fork() == 0:\n    os.setsid()\ntime.sleep(1000)\n", ranks=1)

    def kill(_: object, statuses: Sequence[Status]) -> None:
        if statuses[0].what == "script" and len(marked(bench.mark)) >= 7:  # the warden, two servers, the sandbox …
            os.kill(bench.servers._warden.pid, signal.SIGKILL)

    with pytest.raises(launch.LaunchError):
        bench.servers.run(jobs, LIMITS, kill)
    assert wait_until(lambda: marked(bench.mark) == set())
    with pytest.raises(StopIteration):
        next(starting)


def test_the_conductor_and_the_warden_import_no_torch() -> None:
    program = (
        "import sys, dpcheck.verify.launch, dpcheck.verify.warden; assert not {'torch', 'numpy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)


def test_where_scripts_write(tmp_path: pathlib.Path) -> None:
    for name in ("repository/.git", "repository/code/deep", "cache", "out", "elsewhere", "config"):
        (tmp_path / name).mkdir(parents=True)
    here = str(tmp_path / "repository/code")
    arguments = [
        "--out",
        "../../out/new/run",
        f"--log={tmp_path}/elsewhere/log.txt",
        "s3://bucket/a",
        "lr=1/2",
        "x" * 9999 + "/",
    ]
    job = Job("rank", 0, 1, "", "", "deep/train.py", False, arguments, here, 1)
    found = sandbox.directories_of(job, {"HF_HOME": str(tmp_path / "cache"), "PATH": "/usr/bin:/bin", "EMPTY": ""})
    expected = ["cache", "elsewhere", "out", "repository", "repository/code", "repository/code/deep"]
    assert sorted(path for path in found if path.startswith(str(tmp_path))) == [
        str(tmp_path / name) for name in expected
    ]
    assert not {"/", "/usr/bin", "/proc", "/dev", "/etc"} & set(found)
    assert found == sorted(found, key=len)


def test_a_server_that_cannot_prepare_says_why(tmp_path: pathlib.Path) -> None:
    servers = Servers(1, environment=environment("none"), installers=["no_such_module:install"], folder=tmp_path)
    with servers, pytest.raises(launch.LaunchError, match="No module named 'no_such_module'"):
        servers.prepare()
    assert tmp_path.exists()
