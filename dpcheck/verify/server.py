"""A fork server: imports torch once, forks a process for each job. Run as `python -m dpcheck.verify.server SOCKET`."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import pathlib
import pkgutil
import selectors
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from dpcheck.verify import linux, processes, sandbox
from dpcheck.verify.channel import Channel, Exited, Fork, Forked, Kill, Prepare, Ready
from dpcheck.verify.job import INTERNAL
from dpcheck.verify.output import Output

if TYPE_CHECKING:
    from dpcheck.verify.session import Session

_LIBRARIES = ("torch", "numpy", "torch.distributed", "torch.multiprocessing", "torch.optim", "torch.utils.data")
_IDLE = 0.25  # seconds after which orphans are looked for


def main(arguments: Sequence[str]) -> None:
    linux.die_with_parent(signal.SIGKILL)
    linux.adopt_orphans()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if not getattr(sys.flags, "safe_path", False):
        del sys.path[0]  # where this program was started; a job puts its script's folder there
    channel = Channel(socket.socket(fileno=int(arguments[0])))
    try:
        prepare = channel.receive()
        assert isinstance(prepare, Prepare)
        started = time.monotonic()
        try:
            installers = _prepare(prepare)
        except Exception:
            channel.send(Ready(0.0, traceback.format_exc(limit=-4)))
            return
        channel.send(Ready(time.monotonic() - started))
        server = _Server(channel, installers)
        try:
            server.serve()
        finally:
            server.end()
    except EOFError:
        pass
    except Exception:
        traceback.print_exc()  # into the server's log, which the conductor quotes
        sys.stderr.flush()
    finally:
        os._exit(0)


def _prepare(prepare: Prepare) -> list[Callable[[Session], None]]:
    """Import what is the same for all jobs. Nothing is computed, so that no thread starts: a fork would lose it."""
    gc.disable()  # imports make no garbage worth the many looks for it
    for name in _LIBRARIES:
        importlib.import_module(name)
    import torch

    from dpcheck.verify import child, dynamo  # noqa: F401 - imported here for the processes to be forked

    torch.set_num_threads(1)
    dynamo.leave_out()
    installers = []
    for name in prepare.installers:
        module_name, _, function = name.partition(":")
        module = importlib.import_module(module_name)
        for part in pkgutil.walk_packages(getattr(module, "__path__", []), module_name + "."):
            importlib.import_module(part.name)
        installers.append(getattr(module, function))
    gc.freeze()  # no collection of a child touches, and so copies, the pages of what was imported
    gc.enable()
    return installers


class _Running:
    """A job's process."""

    def __init__(self, folder: str, process: int, output: Output) -> None:
        self.folder = folder
        self.process = process
        self.output = output


class _Server:
    def __init__(self, channel: Channel, installers: list[Callable[[Session], None]]) -> None:
        self._channel = channel
        self._installers = installers
        self._running: dict[str, _Running] = {}
        self._woken, self._wake = os.pipe()
        for end in (self._woken, self._wake):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(self._wake)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def serve(self) -> None:
        while True:
            self._wait()
            self._reap()
            while (message := self._channel.receive(timeout=0)) is not None:
                if isinstance(message, Fork):
                    self._fork(message)
                elif isinstance(message, Kill) and message.folder in self._running:
                    processes.kill_tree(self._running[message.folder].process)

    def end(self) -> None:
        for running in self._running.values():
            processes.kill_tree(running.process)
        for orphan in processes.descendants(os.getpid()):
            processes.kill(orphan)

    def _wait(self) -> None:
        """Until there is a message, a child has ended, or something was printed; print-outs are read on the way."""
        outputs = [running.output for running in self._running.values() if running.output.open]
        with selectors.DefaultSelector() as selector:
            selector.register(self._channel, selectors.EVENT_READ)
            selector.register(self._woken, selectors.EVENT_READ)
            now = time.monotonic()
            waiting = [output for output in outputs if output.due > now]
            for output in outputs:
                if output.due <= now:
                    selector.register(output.reading, selectors.EVENT_READ, output)
            pause = min((output.due - now for output in waiting), default=_IDLE)
            for key, _ in selector.select(pause):
                if isinstance(key.data, Output):
                    key.data.drain()
        with contextlib.suppress(BlockingIOError):
            os.read(self._woken, 512)

    def _fork(self, order: Fork) -> None:
        output = Output()
        sys.stdout.flush()
        sys.stderr.flush()
        linux.flush_c_streams()
        namespaces: list[tuple[int, int]] = []
        if order.sandbox is not None:
            flags = sandbox.namespaces(order.isolated)
            namespaces = [(linux.open_namespace(order.sandbox, flag), flag) for flag in flags]
        if order.sandbox is not None and "processes" in order.isolated:
            of_processes = linux.open_namespace(order.sandbox, linux.NEW_PROCESSES)
            process = linux.fork_after(lambda: linux.enter(of_processes, linux.NEW_PROCESSES))
            os.close(of_processes)
        else:
            process = os.fork()
        if process == 0:
            self._become_child(order, output, namespaces)
        for file, _ in namespaces:
            os.close(file)
        os.close(output.writing)
        self._running[order.job.folder] = _Running(order.job.folder, process, output)
        self._channel.send(Forked(order.job.folder, process))

    def _become_child(self, order: Fork, output: Output, namespaces: list[tuple[int, int]]) -> None:
        from dpcheck.verify import child

        try:
            linux.die_with_parent(signal.SIGKILL)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            os.setsid()
            os.dup2(output.writing, 1)
            os.dup2(output.writing, 2)
            os.close(output.writing)
            for file, flag in namespaces:
                linux.enter(file, flag)
                os.close(file)
            if linux.AVAILABLE and os.getuid() != 0:
                linux.drop_capabilities()
            self._channel.close()
            for end in (self._woken, self._wake, output.reading):
                os.close(end)
            for other in self._running.values():
                other.output.close()
            child.run(order.job, order.scratch, order.private, self._installers)
        except BaseException:
            traceback.print_exc()
        finally:
            with contextlib.suppress(BaseException):
                sys.stderr.flush()
            child.leave(INTERNAL)

    def _reap(self) -> None:
        for folder, running in list(self._running.items()):
            status = processes.end_of(running.process)
            if status is not None:
                code = os.waitstatus_to_exitcode(status)
                running.output.drain()
                running.output.close()
                running.output.save(pathlib.Path(folder))
                del self._running[folder]
                self._channel.send(Exited(folder, max(code, 0), max(-code, 0)))
        for _ in processes.reap() if not self._running else ():
            pass
        if not self._running:
            # nothing else descends from here but what a script left behind
            for orphan in processes.descendants(os.getpid()):
                processes.kill(orphan)


if __name__ == "__main__":
    main(sys.argv[1:])
