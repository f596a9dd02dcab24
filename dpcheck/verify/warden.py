"""The warden: starts the fork servers, makes the sandboxes, and sees that nothing is left when its conductor is gone.

It is a small process that the conductor starts first. All others descend from it and are adopted by it, so that
it can end them all however the conductor ends. Run as `python -m dpcheck.verify.warden SOCKET`.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence

from dpcheck.verify import linux, processes, sandbox
from dpcheck.verify.channel import Begin, Begun, Channel, Close, Closed, Message, Open, Opened, Start, Trouble

_PATIENCE = 20.0  # seconds to wait for a sandbox to answer


def main(arguments: Sequence[str]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _leave)
    channel = Channel(socket.socket(fileno=int(arguments[0])))
    linux.adopt_orphans()
    warden: _Warden | None = None
    try:
        begin = channel.receive()
        assert isinstance(begin, Begin)
        warden = _Warden(channel, begin)
        warden.serve()
    except (EOFError, SystemExit):
        pass
    except Exception:
        with contextlib.suppress(EOFError):
            channel.send(Trouble(traceback.format_exc(limit=-4)))
    finally:
        if warden is not None:
            warden.end()


class _Warden:
    def __init__(self, channel: Channel, begin: Begin) -> None:
        self._channel = channel
        self._begin = begin
        self._sandboxes: dict[int, tuple[int, Channel]] = {}
        notes: list[str] = []
        self._isolated: list[str] = []
        kinds = begin.isolate
        if kinds and not linux.AVAILABLE:
            notes.append(f"nothing can be made private to a run on {sys.platform}")
        elif kinds:
            attempt = pathlib.Path(begin.folder, "attempt")
            attempt.mkdir()
            self._isolated, notes = sandbox.what_is_permitted(kinds, str(attempt))
            attempt.rmdir()
            if self._isolated and not linux.may_administer():
                linux.become_own_administrator()  # before the servers start, which are to be in the same user namespace
        self._servers = [self._start(server) for server in begin.servers]
        channel.send(Begun(self._isolated, notes))

    def serve(self) -> None:
        while True:
            message = self._channel.receive(timeout=0.5)
            for _ in processes.reap():
                pass
            if isinstance(message, Open):
                self._channel.send(self._open(message))
            elif isinstance(message, Close):
                self._channel.send(self._close(message))

    def end(self) -> None:
        """Kill whatever still runs, and remove the folder."""
        for process, _ in self._sandboxes.values():
            processes.kill(process)
        started = time.monotonic()
        while time.monotonic() < started + _PATIENCE:
            for process in processes.descendants(os.getpid()):
                processes.kill(process)
            if not linux.AVAILABLE and time.monotonic() > started + _PATIENCE / 2:
                for server in self._servers:  # they end by themselves, and take along what only they know
                    server.kill()
            try:
                if os.waitpid(-1, os.WNOHANG)[0] == 0:
                    time.sleep(0.005)
            except ChildProcessError:
                break
        if self._begin.remove:
            shutil.rmtree(self._begin.folder, ignore_errors=True)

    def _start(self, server: Start) -> subprocess.Popen[bytes]:
        with pathlib.Path(server.log).open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "dpcheck.verify.server", str(server.socket)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=server.environment,
                pass_fds=[server.socket],
            )
        os.close(server.socket)
        return process

    def _open(self, request: Open) -> Message:
        if "files" not in self._isolated:
            pathlib.Path(request.scratch, "tmp").mkdir()
        if not self._isolated:
            return Opened(request.run, None, [])
        ours, theirs = socket.socketpair()
        if "processes" in self._isolated:
            # the child is number one of a new namespace: when it dies, all in there die
            process = linux.fork_after(lambda: linux.unshare(linux.NEW_PROCESSES))
        else:
            process = os.fork()
        if process == 0:
            try:
                ours.close()
                self._channel.close()
                for _, other in self._sandboxes.values():
                    other.close()
                sandbox.serve(Channel(theirs), request, self._isolated)
            except EOFError:
                pass
            except BaseException as error:
                with contextlib.suppress(BaseException):
                    Channel(theirs).send(Opened(request.run, None, [f"no sandbox could be made: {error}"]))
            finally:
                os._exit(0)
        theirs.close()
        channel = Channel(ours)
        self._sandboxes[request.run] = process, channel
        try:
            opened = channel.receive(_PATIENCE)
        except EOFError:
            opened = None
        if not isinstance(opened, Opened):
            opened = Opened(request.run, None, ["no sandbox could be made"])
        if opened.process is None:
            pathlib.Path(request.scratch, "tmp").mkdir(exist_ok=True)
            return opened
        opened.process = process  # as it is known outside of its own namespace
        return opened

    def _close(self, request: Close) -> Message:
        process, channel = self._sandboxes.pop(request.run, (0, None))
        closed: Message | None = None
        if channel is not None:
            with contextlib.suppress(EOFError):
                channel.send(request)
                closed = channel.receive(_PATIENCE)
            processes.kill(process)
            channel.close()
        return closed if isinstance(closed, Closed) else Closed(request.run, [], [])


def _leave(*_: object) -> None:
    raise SystemExit


if __name__ == "__main__":
    main(sys.argv[1:])
