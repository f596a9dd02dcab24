"""What was learnt from files in earlier runs: one cache file a project, in `.dpcheck_cache`.

An entry holds as long as the file's time and size, or else its content, stay the same. A cache file that is damaged, or
that another version wrote, is as good as none; and where nothing can be written, nothing is.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import os
import re
import stat
import sys
import time
from pathlib import Path

import msgspec

from dpcheck.program.intake import ENCODER, Entry, Stored, digest
from dpcheck.source.files import absolute
from dpcheck.source.text import Unreadable, load

FOLDER = ".dpcheck_cache"
# What decides how a file becomes an entry.
SOURCES = (
    "program/intake.py",
    "program/lower.py",
    "program/records.py",
    "program/relevance.py",
    "source/nesting.py",
    "source/syntax.py",
    "source/text.py",
)
# A file written this shortly before it was read may have been written again in the same tick of the clock.
TICK_NS = 2_000_000_000
DIGEST = 16


class Contents(msgspec.Struct, frozen=True, array_like=True):
    version: bytes
    files: dict[str, Stored]


class Cache:
    """`folder` None: nothing is kept beyond this run. The file in it is named after `project`."""

    def __init__(self, folder: Path | None = None, project: Path | None = None) -> None:
        self._folder = folder
        place = Path(absolute(project or Path.cwd()))
        name = re.sub(r"\W", "_", place.name) or "root"
        self._name = f"{name}-{digest(os.fsencode(place)).hex()[:12]}.msgpack"
        self._files: dict[str, Stored] = {}
        self._used: set[str] = set()
        self._changed = False
        if folder is not None:
            self._files = read(folder / self._name)

    def get(self, path: Path) -> Entry | None:
        """What is known of the file as it is now."""
        key = str(path)
        stored = self._files.get(key)
        if stored is None:
            return None
        if key not in self._used:
            try:
                status = path.stat()
                if (status.st_mtime_ns, status.st_size) != (stored.mtime_ns, stored.size):
                    status, data = load(path)
                    if digest(data) != stored.digest:
                        return None
                    self.put(path, msgspec.structs.replace(stored, mtime_ns=status.st_mtime_ns, size=len(data)))
            except (OSError, Unreadable):
                return None
            self._used.add(key)
        return stored.entry

    def put(self, path: Path, stored: Stored) -> None:
        """Keep what was learnt from the file; this run takes it for the file's state from now on."""
        if stored.mtime_ns > time.time_ns() - TICK_NS:
            stored = msgspec.structs.replace(stored, mtime_ns=0)
        key = str(path)
        self._files[key] = stored
        self._used.add(key)
        self._changed = True

    def span(self, path: Path, at: int) -> tuple[int, int, int, int] | None:
        """Where record `at` of a file stands, if that has been kept of the file as it is now."""
        return self._files[str(path)].spans.get(at) if self.get(path) is not None else None

    def keep_span(self, path: Path, at: int, span: tuple[int, int, int, int]) -> None:
        """Keep where a record stands."""
        if self.get(path) is not None:
            self._files[str(path)].spans[at] = span
            self._changed = True

    def save(self) -> None:
        """Write the cache file, if there is news. Entries of files that are gone are dropped."""
        if self._folder is None or not self._changed:
            return
        files = {
            key: stored
            for key, stored in self._files.items()
            if stored.size >= 0 and storable(key) and (key in self._used or exists(key))
        }
        payload = ENCODER.encode(Contents(version(), files))
        draft = self._folder / f"{self._name}.{os.getpid()}.tmp"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            if not is_folder(self._folder):
                return
            with contextlib.suppress(FileExistsError):
                create(self._folder / ".gitignore", b"*\n")
            create(draft, digest(payload) + payload)
            draft.replace(self._folder / self._name)
        except OSError:
            with contextlib.suppress(OSError):
                draft.unlink()
            return
        self._changed = False


def read(path: Path) -> dict[str, Stored]:
    """The entries in a cache file; none if it cannot be used."""
    try:
        if not is_folder(path.parent) or not stat.S_ISREG(path.lstat().st_mode):
            return {}
        data = path.read_bytes()
        if digest(data[DIGEST:]) != data[:DIGEST]:
            return {}
        contents = msgspec.msgpack.decode(memoryview(data)[DIGEST:], type=Contents)
    except (OSError, msgspec.MsgspecError, RecursionError, MemoryError):
        return {}
    return contents.files if contents.version == version() else {}


def exists(path: str) -> bool:
    """Not so for what lies in a folder that may not be entered."""
    return os.path.exists(path)  # noqa: PTH110 (which raises nothing, as `Path.exists` does)


def is_folder(path: Path) -> bool:
    """Not so for a link to one: a project that brings one along has no say in where we write."""
    return stat.S_ISDIR(path.lstat().st_mode)


def create(path: Path, data: bytes) -> None:
    """Write a file that must not exist yet, not even as a link to somewhere else."""
    with path.open("xb") as file:
        file.write(data)


def storable(path: str) -> bool:
    """False for a path with bytes that are not text: it has no form that msgpack can hold."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


@functools.cache
def version() -> bytes:
    """Stands for all that decides how a file is read: this package's own sources, libcst and Python."""
    key = hashlib.blake2b(sys.version.encode(), digest_size=DIGEST)
    root = Path(__file__).parent.parent
    parser = importlib.util.find_spec("libcst")
    try:
        for source in SOURCES:
            key.update((root / source).read_bytes())
        if parser is not None and parser.origin is not None:
            key.update((Path(parser.origin).parent / "_version.py").read_bytes())
    except OSError:  # not installed as files: then no two runs are known to read alike
        return os.urandom(DIGEST)
    return key.digest()
