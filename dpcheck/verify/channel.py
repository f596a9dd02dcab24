"""How the conductor, the warden, the fork servers and the sandboxes talk: one JSON message a line over a socket."""

from __future__ import annotations

import select
import socket
import time
from typing import Any

import msgspec

from dpcheck.verify import wire
from dpcheck.verify.job import Job


class Message(msgspec.Struct, tag=True):
    """Anything that is sent over a channel."""


class Start(msgspec.Struct):
    """A fork server to be started: the socket it inherits, its environment, and the file of its own output."""

    socket: int
    environment: dict[str, str]
    log: str


class Begin(Message):
    """Conductor to warden: start the servers; work in `folder`, and remove it at the end if `remove`."""

    servers: list[Start]
    folder: str
    remove: bool
    isolate: list[str]  # of "files", "processes", "network": what is to be private to a run, where permitted


class Begun(Message):
    """Warden to conductor: the servers are on their way; `isolated` is what will be private to a run."""

    isolated: list[str]
    notes: list[str]


class Trouble(Message):
    """Warden to conductor: what made it give up."""

    text: str


class Open(Message):
    """Conductor to warden: make a sandbox. What is written below `directories` goes to `space` bytes of memory."""

    run: int
    directories: list[str]
    folder: str  # stays real where it lies below one of the directories
    scratch: str  # an existing empty folder, becomes private to the run; its folder `tmp` is for temporary files
    space: int


class Opened(Message):
    """A sandbox's answer: the process whose namespaces it is, or None where nothing could be made private."""

    run: int
    process: int | None
    notes: list[str]


class Close(Message):
    """Conductor to warden to sandbox: kill all that runs in it, and tell what was written."""

    run: int


class Closed(Message):
    """A sandbox's last word. `written` lists files made, changed or removed below the private directories."""

    run: int
    written: list[str]
    notes: list[str]


class Prepare(Message):
    """Conductor to server: import what the jobs will need. `installers` are "module:function", called in each job."""

    installers: list[str]


class Ready(Message):
    """Server to conductor: jobs can be forked. `failure` says what could not be imported."""

    seconds: float
    failure: str | None = None


class Fork(Message):
    """Conductor to server: run the job, inside the namespaces of the process `sandbox` if there is one."""

    job: Job
    sandbox: int | None
    isolated: list[str]
    scratch: str
    private: bool  # all that is written likely vanishes with the run


class Forked(Message):
    """Server to conductor. Jobs are known by their folders."""

    folder: str
    process: int


class Exited(Message):
    """Server to conductor: the job's process is gone, its output is in its folder. `signal` is 0 or what ended it."""

    folder: str
    status: int
    signal: int


class Kill(Message):
    """Conductor to server: kill the job's process and all that descend from it."""

    folder: str


_MESSAGES: Any = (
    Begin | Begun | Trouble | Open | Opened | Close | Closed | Prepare | Ready | Fork | Forked | Exited | Kill
)


class Channel:
    """One end of a socket over which messages come and go. Raises `EOFError` once the other end is gone."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._received = bytearray()

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, message: Message) -> None:
        try:
            self._socket.sendall(wire.encode(message) + b"\n")
        except (BrokenPipeError, ConnectionResetError):
            raise EOFError from None

    def receive(self, timeout: float | None = None) -> Message | None:
        """The next message, or None when none came within `timeout` seconds."""
        end = None if timeout is None else time.monotonic() + timeout
        ready = select.poll()
        ready.register(self._socket, select.POLLIN)
        while b"\n" not in self._received:
            left = None if end is None else max(0.0, end - time.monotonic()) * 1000
            if not ready.poll(left):
                return None
            try:
                data = self._socket.recv(1 << 16)
            except ConnectionResetError:
                data = b""
            if not data:
                raise EOFError
            self._received += data
        line, _, self._received = self._received.partition(b"\n")
        message: Message = wire.decode(bytes(line), _MESSAGES)
        return message

    def close(self) -> None:
        self._socket.close()
