"""The conductor's side: starts the servers, runs jobs on them, watches, and says how each went. Imports no torch."""

from __future__ import annotations

import collections
import contextlib
import os
import pathlib
import random
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Literal, NamedTuple, TypeVar

import msgspec

from dpcheck.verify import environment, output, processes, recording, sandbox, stacks, status, telling
from dpcheck.verify.channel import (
    Begin,
    Begun,
    Channel,
    Close,
    Closed,
    Exited,
    Fork,
    Forked,
    Kill,
    Message,
    Open,
    Opened,
    Prepare,
    Ready,
    Start,
    Trouble,
)
from dpcheck.verify.job import Job
from dpcheck.verify.recording import Recording
from dpcheck.verify.status import Status

INSTALLERS = ("dpcheck.verify.shim:install", "dpcheck.verify.hooks:install")

_POLL = 0.02
_SAMPLE = 0.25  # seconds between two looks at what a process has used
_START = 180.0  # seconds for a server to import torch
_ANSWER = 30.0
_TAIL = 8192
_LEAST_USE = 0.1  # seconds of processor time in any window
_SEES_USE = sys.platform == "linux"
_BLIND = 4.0  # how much longer a process may do nothing where only its events are seen
_LEAST_ROOM, _MOST_ROOM = 256 << 20, 8 << 30


_M = TypeVar("_M", bound=Message)


class LaunchError(Exception):
    """Processes cannot be started here. The message says why, and what would help."""


class Limits(msgspec.Struct, frozen=True):
    """How long a run may take, in seconds, and how little a process does that is taken for hung."""

    total: float = 600.0
    idle: float = 30.0  # without an event of any process
    grace: float = 8.0  # the same, once one of the processes has left
    share: float = 0.01  # of a processor: what waiting in a poll may use
    stacks: float = 2.0  # for a hung process to write its stacks


End = Literal["finished", "exited", "killed", "hung", "timed out"]


class Outcome(msgspec.Struct):
    """How a job's process went. One that hung tells in its recording how far it came, if it can.

    `end`: "finished", it left a recording; "exited" without one, with `exit_status`; "killed" by `signal`, not by us;
    "hung" or "timed out", killed by us, after it wrote its `stacks`, innermost call first. `left` names the other jobs
    of the run, by rank, that were finished or gone while this one hung.
    """

    job: Job
    end: End
    recording: Recording | None
    status: Status
    exit_status: int | None = None
    signal: str | None = None
    stacks: str = ""
    output: str = ""
    seconds: float = 0.0
    left: list[int] = []
    written: list[str] = []  # by all processes of the run, where writes are private
    notes: list[str] = []  # about the run's sandbox


class Servers:
    """Fork servers, one a rank, and all that runs on them. Leaving the context ends every process and removes `folder`.

    `environment` is what the script's processes get to see, less what other launchers left in it. `folder` is a new
    temporary folder unless given; a given one is kept. `installers` are called in every job, as "module:function".
    `isolate` says what is to be private to a run, as far as the system permits: `notes` says what it does not.
    """

    def __init__(
        self,
        ranks: int,
        *,
        environment: Mapping[str, str] | None = None,
        folder: pathlib.Path | None = None,
        installers: Sequence[str] = INSTALLERS,
        isolate: Iterable[str] = tuple(sandbox.KINDS),
        space: int | None = None,
    ) -> None:
        self.isolated: list[str] = []
        self.notes: list[str] = []
        self._ranks = ranks
        self._environment = dict(os.environ if environment is None else environment)
        self._given_folder = folder
        self._installers = list(installers)
        self._isolate = list(isolate)
        self._space = space or _room()
        self._channels: list[Channel] = []
        self._logs: list[pathlib.Path] = []
        self._prepared = False
        self._runs = 0

    def __enter__(self) -> Servers:
        if not hasattr(os, "fork"):
            raise LaunchError("dpcheck verify starts its processes by fork, which this system does not have")
        self.folder = self._given_folder or pathlib.Path(tempfile.mkdtemp(prefix="dpcheck-"))
        self.folder = self.folder.resolve()
        try:
            self._start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        warden = getattr(self, "_warden", None)
        for channel in (*self._channels, *([self._control] if warden else [])):
            channel.close()
        if warden is not None:
            try:
                warden.wait(_ANSWER)
            except subprocess.TimeoutExpired:
                warden.kill()
                warden.wait()
        if self._given_folder is None:
            shutil.rmtree(self.folder, ignore_errors=True)

    def run(
        self,
        jobs: Sequence[Job],
        limits: Limits = Limits(),  # noqa: B008 - frozen
        progress: Callable[[Sequence[Job], Sequence[Status]], None] | None = None,
    ) -> list[Outcome]:
        """Run the jobs and say how each went, in their order. Those with the same `shared` folder are one run.

        Raises `LaunchError` when a server cannot be started or has died.
        """
        self.prepare()
        by_run: dict[str, list[_Process]] = {}
        for job in jobs:
            if pathlib.Path(job.folder, recording.FILE).exists():
                raise ValueError(f"{job.folder} holds the recording of another job")
        everyone = [_Process(job, limits) for job in jobs]
        for process in everyone:
            by_run.setdefault(process.job.shared, []).append(process)
        runs = []
        try:
            for members in by_run.values():
                runs.append(self._open(members))
            started = time.monotonic()
            while any(not run.closed for run in runs):
                self._listen(everyone, _POLL)
                for run in runs:
                    if not run.closed and run.settled(limits, time.monotonic() - started):
                        self._close(run, everyone, limits)
                if progress is not None:
                    progress([process.job for process in everyone], [process.status for process in everyone])
        finally:
            for run in runs:
                if not run.closed:
                    with contextlib.suppress(LaunchError):
                        self._close(run, everyone, limits)
        return [process.outcome() for process in everyone]

    def prepare(self) -> None:
        """Wait until the servers can fork."""
        if self._prepared:
            return
        begun = self._answer(self._control, Begun, _ANSWER)
        self.isolated = begun.isolated
        self.notes += begun.notes
        for number, channel in enumerate(self._channels):
            ready = self._answer(channel, Ready, _START, number)
            if ready.failure is not None:
                raise LaunchError(f"the processes to be forked cannot be prepared:\n{ready.failure.strip()}")
        self._prepared = True

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        pairs = [socket.socketpair() for _ in range(self._ranks)]
        seeds = random.SystemRandom().sample(range(1, 2**32 - 1), self._ranks)
        self._logs = [self.folder / f"server-{number}.txt" for number in range(self._ranks)]
        self._control = Channel(ours)
        self._channels = [Channel(pair[0]) for pair in pairs]
        inherited = [theirs.fileno(), *(pair[1].fileno() for pair in pairs)]
        own = dict(self._environment)
        own["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, own.get("PYTHONPATH", "").split(os.pathsep)))
        if not self._environment.get("PYTHONPATH"):
            del own["PYTHONPATH"]
        with (self.folder / "warden.txt").open("wb") as log:
            self._warden = subprocess.Popen(
                [sys.executable, "-m", "dpcheck.verify.warden", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=own,
                pass_fds=inherited,
                start_new_session=True,  # an interrupt from the terminal is the conductor's alone
            )
        starts = [
            Start(pair[1].fileno(), environment.of_server(own, seed), str(log))
            for pair, seed, log in zip(pairs, seeds, self._logs, strict=True)
        ]
        self._send(self._control, Begin(starts, str(self.folder), self._given_folder is None, self._isolate))
        for channel in self._channels:
            self._send(channel, Prepare(self._installers))
        for end in (theirs, *(pair[1] for pair in pairs)):
            end.close()

    def _open(self, members: list[_Process]) -> _Run:
        self._runs += 1
        run = _Run(self._runs, members)
        scratch = self.folder / f"scratch-{run.number}"
        scratch.mkdir()
        directories = sandbox.directories_of(members[0].job, self._environment)
        self._send(self._control, Open(run.number, directories, str(self.folder), str(scratch), self._space))
        opened = self._answer(self._control, Opened, _ANSWER)
        run.notes += opened.notes
        run.private = opened.process is not None and "processes" in self.isolated
        for process in members:
            process.server = process.job.rank % self._ranks if process.job.role == "rank" else 0
            private = opened.process is not None and "files" in self.isolated and not opened.notes
            order = Fork(process.job, opened.process, self.isolated, str(scratch), private)
            self._send(self._channels[process.server], order)
        return run

    def _close(self, run: _Run, everyone: Sequence[_Process], limits: Limits) -> None:
        run.closed = True
        run.write_stacks(limits)
        if not run.private:
            for process in run.members:
                if not process.gone:
                    self._send(self._channels[process.server], Kill(process.job.folder))
        self._send(self._control, Close(run.number))
        closed = self._answer(self._control, Closed, _ANSWER)
        run.notes += closed.notes
        end = time.monotonic() + _ANSWER
        while any(not process.gone for process in run.members) and time.monotonic() < end:
            self._listen(everyone, 0.05)
        for process in run.members:
            process.written, process.notes = closed.written, run.notes
            process.ended = process.ended or time.monotonic()
        shutil.rmtree(self.folder / f"scratch-{run.number}", ignore_errors=True)

    def _listen(self, everyone: Sequence[_Process], timeout: float) -> None:
        """Take the servers' messages, waiting for the first one."""
        ready = _readable(self._channels, timeout)
        by_folder = {process.job.folder: process for process in everyone}
        for number, channel in enumerate(self._channels):
            if channel not in ready:
                continue
            try:
                while (message := channel.receive(0)) is not None:
                    if isinstance(message, Forked) and message.folder in by_folder:
                        by_folder[message.folder].number = message.process
                    elif isinstance(message, Exited) and message.folder in by_folder:
                        by_folder[message.folder].exited(message)
            except EOFError:
                raise LaunchError(f"{self._name_of(number)} has died{self._tail_of(number)}") from None

    def _send(self, channel: Channel, message: Message) -> None:
        try:
            channel.send(message)
        except EOFError:
            number = self._channels.index(channel) if channel in self._channels else None
            raise LaunchError(f"{self._name_of(number)} has died{self._tail_of(number)}") from None

    def _answer(self, channel: Channel, kind: type[_M], timeout: float, server: int | None = None) -> _M:
        try:
            message = channel.receive(timeout)
        except EOFError:
            raise LaunchError(f"{self._name_of(server)} has died{self._tail_of(server)}") from None
        if isinstance(message, Trouble):
            raise LaunchError(f"processes cannot be started:\n{message.text.strip()}")
        if not isinstance(message, kind):
            raise LaunchError(f"{self._name_of(server)} does not answer{self._tail_of(server)}")
        return message

    def _name_of(self, server: int | None) -> str:
        return "the process that starts all others" if server is None else f"the process that starts rank {server}"

    def _tail_of(self, server: int | None) -> str:
        log = self.folder / "warden.txt" if server is None else self._logs[server]
        with contextlib.suppress(OSError):
            text = log.read_text("utf-8", "replace").strip()
            if text:
                return f":\n{text[-_TAIL:]}"
        return ""


class _Sample(NamedTuple):
    """What a process had done by a moment."""

    moment: float
    used: processes.Use
    event: int


class _Process:
    """A job under way."""

    def __init__(self, job: Job, limits: Limits) -> None:
        self.job = job
        self.folder = pathlib.Path(job.folder)
        self.server = 0
        self.number: int | None = None
        self.gone = False
        self.given_up: End | None = None
        self.left: list[int] = []
        self.stacks = ""
        self.status = Status()
        self.written: list[str] = []
        self.notes: list[str] = []
        self.ended: float | None = None
        self._started = time.monotonic()
        self._exit_status: int | None = None
        self._signal = 0
        self._samples: collections.deque[_Sample] = collections.deque()
        self._longest = max(limits.idle, limits.grace) * (1 if _SEES_USE else _BLIND)

    @property
    def finished(self) -> bool:
        """Whether it left a recording; it may live on, for its peers' sake."""
        return (self.folder / recording.FILE).exists()

    def exited(self, message: Exited) -> None:
        self.gone = True
        self.ended = time.monotonic()
        self._exit_status, self._signal = message.status, message.signal

    def look(self, now: float) -> None:
        """Take down what it has done by now."""
        self.status = status.read(self.folder)
        if self.gone or self.number is None or (self._samples and now - self._samples[-1].moment < _SAMPLE):
            return
        used = processes.use(self.number) or processes.Use(0.0, 0)
        self._samples.append(_Sample(now, used, self.status.number))
        while len(self._samples) > 1 and self._samples[1].moment <= now - self._longest:
            self._samples.popleft()

    def idle(self, seconds: float, share: float) -> bool:
        """Whether it has done nothing for so long: no event, no storage used, and next to no processor time."""
        if not _SEES_USE:
            seconds *= _BLIND
        if not self._samples:
            return False
        now = self._samples[-1]
        before = [sample for sample in self._samples if sample.moment <= now.moment - seconds]
        if not before:
            return False
        then = before[-1]
        used = now.used.seconds - then.used.seconds
        return (
            then.event == now.event == self.status.number
            and then.used.bytes == now.used.bytes
            and used < max(_LEAST_USE, share * seconds)
        )

    def outcome(self) -> Outcome:
        record = recording.read(self.folder)
        end: End = "finished" if record is not None else self.given_up or ("killed" if self._signal else "exited")
        ended_itself = self.given_up is None and record is None
        return Outcome(
            job=self.job,
            end=end,
            recording=record if record is not None else telling.read(self.folder),
            status=status.read(self.folder),
            exit_status=self._exit_status if ended_itself and not self._signal else None,
            signal=_name_of(self._signal) if ended_itself and self._signal else None,
            stacks=self.stacks,
            output=_tail_of(self.folder / output.FILE),
            seconds=(self.ended or self._started) - self._started,
            left=self.left,
            written=self.written,
            notes=self.notes,
        )


class _Run:
    """Jobs that share a sandbox and wait for each other."""

    def __init__(self, number: int, members: list[_Process]) -> None:
        self.number = number
        self.members = members
        self.closed = False
        self.private = False  # closing the sandbox kills the processes
        self.notes: list[str] = []

    def settled(self, limits: Limits, elapsed: float) -> bool:
        """Whether nothing more is to be expected. Those that are given up are marked so."""
        now = time.monotonic()
        done = [process for process in self.members if process.gone or process.finished]
        live = [process for process in self.members if process not in done]
        for process in live:
            process.look(now)
        if not live:
            return True
        window = limits.grace if done else limits.idle
        if elapsed > limits.total:
            self._give_up(live, done, "timed out")
        elif all(process.idle(window, limits.share) for process in live):
            self._give_up(live, done, "hung")
        return any(process.given_up is not None for process in live)

    def write_stacks(self, limits: Limits) -> None:
        """Have those that were given up tell what they are doing."""
        asked = [process for process in self.members if process.given_up and process.number and not process.gone]
        for process in asked:
            processes.kill(process.number or 0, stacks.SIGNAL)
        end = time.monotonic() + limits.stacks if asked else 0.0
        while time.monotonic() < end:
            before = [process.stacks for process in asked]
            time.sleep(0.05)
            for process in asked:
                process.stacks = stacks.read(process.folder)
            if all(before) and before == [process.stacks for process in asked]:
                break
        telling.ask([process.folder for process in asked], limits.stacks)

    def _give_up(self, live: list[_Process], done: list[_Process], end: End) -> None:
        for process in live:
            process.given_up = end
            process.left = [other.job.rank for other in done]


def free_port() -> int:
    """A port that nothing listens on at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _readable(channels: Sequence[Channel], timeout: float) -> list[Channel]:
    with selectors.DefaultSelector() as selector:
        for channel in channels:
            selector.register(channel, selectors.EVENT_READ, channel)
        return [key.data for key, _ in selector.select(timeout)]


def _room() -> int:
    """How much a run may write, in bytes of memory: a quarter of what is available."""
    with contextlib.suppress(OSError, ValueError, StopIteration):
        lines = pathlib.Path("/proc/meminfo").read_text("ascii").splitlines()
        available = next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")) << 10
        return min(max(available // 4, _LEAST_ROOM), _MOST_ROOM)
    return _LEAST_ROOM


def _tail_of(file: pathlib.Path) -> str:
    with contextlib.suppress(OSError):
        return file.read_bytes()[-_TAIL:].decode("utf-8", "replace")
    return ""


def _name_of(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
