"""A file's bytes as text, decoded as Python decodes it."""

from __future__ import annotations

import codecs
import dataclasses
import os
import re
import stat
from pathlib import Path

# PEP 263: in one of the first two lines, the first of which must be blank or a comment.
COOKIE = re.compile(r"[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)", re.ASCII)
BLANK = re.compile(r"[ \t\f]*(?:#.*)?$")
NEWLINE = re.compile(r"\r\n?|\n")
# A file that is larger is not read. The largest that trains, among those that we know, has 1.4 MB; and a libcst tree
# takes 800 times the space of its text.
LARGEST = 4 << 20


class Unreadable(Exception):
    """A file that cannot be read, decoded or parsed. Line and column count from 1."""

    def __init__(self, path: Path, reason: str, line: int = 1, column: int = 1) -> None:
        super().__init__(path, reason, line, column)
        self.path = path
        self.reason = reason
        self.line = line
        self.column = column

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}: {self.reason}"


@dataclasses.dataclass(frozen=True, slots=True)
class Source:
    """`text` has no byte order mark and ends its lines as the file does."""

    path: Path
    data: bytes
    text: str


def read(path: Path) -> Source:
    """The file's text. Raises Unreadable."""
    return decode(path, load(path)[1])


def load(path: Path) -> tuple[os.stat_result, bytes]:
    """The file's status and content. Raises Unreadable, also for a pipe or a device, which may have no end."""
    try:
        status = path.stat()
        if stat.S_ISREG(status.st_mode) and status.st_size <= LARGEST:
            return status, path.read_bytes()
    except OSError as error:
        raise Unreadable(path, f"cannot be read: {error.strerror or error}") from None
    if stat.S_ISREG(status.st_mode):
        raise Unreadable(path, f"is larger than {LARGEST >> 20} MiB")
    raise Unreadable(path, "is not a regular file")


def decode(path: Path, data: bytes) -> Source:
    """The text of a file that holds `data`. Raises Unreadable."""
    null = data.find(b"\0")
    if null >= 0 and not data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        line, column = position(data[:null].decode("utf-8", "replace"), null)
        raise Unreadable(path, "contains a null byte", line, column)
    body = data.removeprefix(codecs.BOM_UTF8)
    name = declared(body)
    if name is not None and len(body) < len(data) and codec(path, name) != "utf-8":
        raise Unreadable(path, f"has a UTF-8 byte order mark but declares the encoding {name}")
    encoding = "utf-8" if name is None else codec(path, name)
    try:
        text = body.decode(encoding)
    except UnicodeDecodeError as error:
        line, column = position(body[: error.start].decode("utf-8", "replace"), error.start)
        raise Unreadable(path, f"cannot be decoded as {error.encoding}", line, column) from None
    except (UnicodeError, ValueError) as error:  # codecs are free to raise any kind of ValueError
        raise Unreadable(path, f"cannot be decoded as {encoding}: {error}") from None
    null = text.find("\0")
    if null >= 0:
        raise Unreadable(path, "contains a null character")
    return Source(path, data, text)


def declared(data: bytes) -> str | None:
    """The encoding named in the first two lines, if any."""
    for line in NEWLINE.split(data[:4096].decode("latin-1"), maxsplit=2)[:2]:
        match = COOKIE.match(line)
        if match:
            return match[1]
        if not BLANK.match(line):
            break
    return None


def codec(path: Path, name: str) -> str:
    """The codec of that name. Only codecs that yield text count: `rot13` and `hex` do not."""
    normal = name.lower().replace("_", "-")
    if normal == "utf-8" or normal.startswith("utf-8-"):
        return "utf-8"
    if normal in ("latin-1", "iso-8859-1", "iso-latin-1") or normal.startswith(
        ("latin-1-", "iso-8859-1-", "iso-latin-1-")
    ):
        return "iso-8859-1"
    try:
        known = getattr(codecs.lookup(name), "_is_text_encoding", True)
    except LookupError:
        known = False
    if not known:
        raise Unreadable(path, f"declares the unknown encoding {name}")
    return name


def position(text: str, offset: int) -> tuple[int, int]:
    """Line and column of an offset, counted from 1 and in characters."""
    lines = NEWLINE.split(text[:offset])
    return len(lines), len(lines[-1]) + 1
