"""What is learnt from one file: whether it can be read, whether it matters, what it imports, and its records.

Files are taken in one by one or, when there are many, by forked workers; then a file that kills the parser costs itself
alone. So does a large file in any case, which is parsed in a process of its own.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from dpcheck.program import records
from dpcheck.program.relevance import MAIN, imports, is_relevant
from dpcheck.source.child import LARGE, can_fork, in_child
from dpcheck.source.stack import deep
from dpcheck.source.syntax import judge, on_stack, parse, uncollected
from dpcheck.source.text import Source, Unreadable, decode, load, read

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import ForkContext, ForkProcess

FEW = 50  # so many files are read before workers would have started
BATCH = 8
CRASHED = "crashes the parser"
REROUTES = (b"sys.path", b"addsitedir", b"from sys import")


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """What a file's content says.

    `error` is why it is unreadable, with line and column. `module` are its encoded records, None when they have not
    been asked for and empty when there are none. `imports` are read off the bytes, of files that are not relevant
    only. `main`: it speaks of `__main__`; `remarks`: of dpcheck; `reroutes`: of `sys.path`.

    A file that Python accepts and libcst does not is unreadable if it is relevant; else it is merely unknown, so that
    the verdict does not depend on whether anything has imported it.
    """

    error: tuple[str, int, int] | None
    relevant: bool
    main: bool
    remarks: bool
    reroutes: bool
    imports: tuple[tuple[int, str], ...]
    module: bytes | None


class Stored(msgspec.Struct, frozen=True, array_like=True):
    """An entry, and which content it is about. A negative `size`: the file could not be read at all, this time.

    `spans` are those of the records that reports have asked for: lines and columns, from and to.
    """

    mtime_ns: int
    size: int
    digest: bytes
    entry: Entry
    spans: dict[int, tuple[int, int, int, int]] = msgspec.field(default_factory=dict)


ENCODER = msgspec.msgpack.Encoder()
MODULES = msgspec.msgpack.Decoder(records.Module)
STORED = msgspec.msgpack.Decoder(Stored)
# Stands for records that nest too deeply to be encoded (Python 3.12 bounds recursion in C by a constant). No msgpack
# begins with this byte.
UNSTORABLE = b"\xc1"


def digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


def unpack(path: Path, module: bytes) -> records.Module:
    """The records of a file whose `Entry.module` is neither None nor empty. Raises Unreadable."""
    if module != UNSTORABLE:
        with contextlib.suppress(RecursionError):
            return MODULES.decode(module)
        with contextlib.suppress(RecursionError):
            return deep(lambda: MODULES.decode(module))
    source = read(path)
    return on_stack(source, lambda: lowered(source))


def failed(reason: str, line: int = 1, column: int = 1) -> Entry:
    return Entry((reason, line, column), False, False, False, False, (), b"")


def take_in(path: Path, *, lower: bool = False) -> Stored:
    """Read a file. It is lowered when it is relevant, or when `lower` asks for it."""
    try:
        status, data = load(path)
        return Stored(status.st_mtime_ns, len(data), digest(data), examine(path, data, lower=lower))
    except Unreadable as error:
        return unread(error.reason)
    except MemoryError:
        return unread("takes more memory than there is")


def unread(reason: str) -> Stored:
    """For a reason that another run need not have."""
    return Stored(0, -1, b"", failed(reason))


def take_in_alone(path: Path, *, lower: bool = False) -> Stored:
    """Read a file, a large one in a process of its own if there can be one."""
    try:
        if can_fork() and path.stat().st_size > LARGE:
            answer = in_child(lambda: ENCODER.encode(take_in(path, lower=lower)))
            return unread(CRASHED) if answer is None else STORED.decode(answer)
    except OSError:
        pass
    return take_in(path, lower=lower)


def examine(path: Path, data: bytes, *, lower: bool = False) -> Entry:
    """What a file that holds `data` says."""
    relevant = is_relevant(data)
    try:
        source = decode(path, data)
        module = on_stack(source, lambda: take_apart(source, relevant, lower))
    except Unreadable as error:
        return failed(error.reason, error.line, error.column)
    except RecursionError:
        return failed("nests too deeply")
    return Entry(
        error=None,
        relevant=relevant,
        main=MAIN in data,
        remarks=b"dpcheck" in data,
        reroutes=any(word in data for word in REROUTES),
        imports=() if relevant else imports(data),
        module=module,
    )


def take_apart(source: Source, relevant: bool, lower: bool) -> bytes | None:
    """The encoded records, None when there is no need for them. Raises Unreadable."""
    judge(source)
    if not relevant and not lower:
        return None
    try:
        module = lowered(source)
    except Unreadable:
        if relevant:
            raise
        return b""
    try:
        return ENCODER.encode(module)
    except RecursionError:
        return UNSTORABLE


def lowered(source: Source) -> records.Module:
    from dpcheck.program.lower import lower

    with uncollected():
        return lower(parse(source))


# ---------------------------------------------------------------- many files


def take_in_all(
    paths: Sequence[Path], *, lower: bool = False, jobs: int | None = None
) -> Iterator[tuple[Path, Stored]]:
    """Read files, in no particular order, with `jobs` workers (default: one a processor) if that pays."""
    jobs = min(processors() if jobs is None else jobs, len(paths) // BATCH)
    if len(paths) <= FEW or jobs < 2 or not can_fork():
        for path in paths:
            yield path, take_in_alone(path, lower=lower)
        return
    import multiprocessing

    import libcst  # noqa: F401 (once, before the fork)

    import dpcheck.program.lower  # noqa: F401

    yield from Workers(multiprocessing.get_context("fork"), paths, lower).results(jobs)


def processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Workers:
    """Processes that are handed batches of files and answer file by file, so that it is known which one killed them."""

    def __init__(self, context: ForkContext, paths: Sequence[Path], lower: bool) -> None:
        self._context = context
        self._paths = paths
        self._lower = lower
        self._waiting = list(range(len(paths)))[::-1]
        self._running: dict[Connection, tuple[ForkProcess, list[int]]] = {}

    def results(self, jobs: int) -> Iterator[tuple[Path, Stored]]:
        from multiprocessing.connection import wait

        try:
            for _ in range(jobs):
                self._start()
            while self._running:
                for connection in wait(list(self._running)):
                    result = self._result(connection)  # type: ignore[arg-type]
                    if result is not None:
                        yield result
        finally:
            for connection, (process, _) in self._running.items():
                connection.close()
                process.terminate()

    def _start(self) -> None:
        ours, theirs = self._context.Pipe()
        inherited = [ours, *self._running]
        process = self._context.Process(target=work, args=(theirs, inherited, self._paths, self._lower), daemon=True)
        process.start()
        theirs.close()
        self._running[ours] = process, []
        self._hand_out(ours)

    def _hand_out(self, connection: Connection) -> None:
        """Give a worker its next batch; with nothing left, it ends."""
        process, batch = self._running[connection]
        while self._waiting and len(batch) < BATCH:
            batch.append(self._waiting.pop())
        if batch:
            with contextlib.suppress(OSError):  # it has died: the next wait finds out
                connection.send_bytes(ENCODER.encode(batch))
            return
        del self._running[connection]
        connection.close()
        process.join()

    def _result(self, connection: Connection) -> tuple[Path, Stored] | None:
        _, batch = self._running[connection]
        try:
            answer = connection.recv_bytes()
        except (EOFError, OSError):
            return self._bury(connection)
        path = self._paths[batch.pop(0)]
        if not batch:
            self._hand_out(connection)
        return path, STORED.decode(answer)

    def _bury(self, connection: Connection) -> tuple[Path, Stored] | None:
        """A worker has died over the first file of its batch: give up that one, and start another for the rest."""
        process, batch = self._running.pop(connection)
        connection.close()
        process.join()
        victim, *rest = batch
        self._waiting += rest[::-1]
        if self._waiting:
            self._start()
        return self._paths[victim], unread(CRASHED)


def work(connection: Connection, inherited: Sequence[Any], paths: Sequence[Path], lower: bool) -> None:
    """The life of a worker."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends it
    for other in inherited:  # so that it sees the end of its own pipe when the parent dies
        other.close()
    gc.freeze()
    while True:
        try:
            batch: list[int] = msgspec.msgpack.decode(connection.recv_bytes())
        except (EOFError, OSError):
            return
        for index in batch:
            connection.send_bytes(ENCODER.encode(take_in(paths[index], lower=lower)))
