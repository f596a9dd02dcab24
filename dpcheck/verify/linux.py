"""What Linux offers and the standard library of Python 3.10 does not: namespaces, mounts, death signals."""

from __future__ import annotations

import contextlib
import ctypes
import os
import pathlib
import socket
import struct
import sys
from collections.abc import Callable

NEW_MOUNTS = 0x00020000
NEW_IPC = 0x08000000
NEW_USER = 0x10000000
NEW_PROCESSES = 0x20000000
NEW_NETWORK = 0x40000000
NAMESPACE_FILES = {NEW_MOUNTS: "mnt", NEW_IPC: "ipc", NEW_PROCESSES: "pid", NEW_NETWORK: "net"}

NO_SET_UID, NO_DEVICES, NO_EXECUTION = 0x2, 0x4, 0x8
BIND, RECURSIVE, PRIVATE = 0x1000, 0x4000, 0x40000

_SET_DEATH_SIGNAL, _SET_SUBREAPER, _AMBIENT, _AMBIENT_RAISE = 1, 36, 47, 2
_CAPABILITIES_VERSION = 0x20080522
_ADMINISTRATOR = 21
_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 0x1

AVAILABLE = sys.platform == "linux"


def unshare(flags: int) -> None:
    """Leave the namespaces that `flags` name for new ones."""
    _call("unshare", flags)


def enter(file: int, flag: int) -> None:
    """Enter the namespace that is open as `file`."""
    _call("setns", file, flag)


def open_namespace(process: int, flag: int) -> int:
    """A file descriptor of the namespace that `process` is in."""
    return os.open(f"/proc/{process}/ns/{NAMESPACE_FILES[flag]}", os.O_RDONLY | os.O_CLOEXEC)


def fork_after(prepare: Callable[[], None]) -> int:
    """As `os.fork`, for a caller that adopts orphans; `prepare` has chosen the child's namespace of processes.

    The namespace that a process has chosen for its children can be left again only with rights over the former one.
    So a process in between chooses, forks, and ends.
    """
    reading, writing = os.pipe()
    waiting, going = os.pipe()
    between = os.fork()
    if between == 0:
        try:
            prepare()
            child = os.fork()
        except BaseException as error:
            os.write(writing, f"{getattr(error, 'errno', 0)}".encode())
            os._exit(1)
        if child:
            os.write(writing, f"{child}".encode())
            os._exit(0)
        for end in (reading, writing, going):
            os.close(end)
        os.read(waiting, 1)  # until the caller is the parent
        os.close(waiting)
        return 0
    os.close(writing)
    os.close(waiting)
    failed = os.waitpid(between, 0)[1] != 0
    answer = int(os.read(reading, 32) or b"0")
    os.close(reading)
    os.close(going)
    if failed:
        raise OSError(answer, os.strerror(answer))
    return answer


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    _call("mount", os.fsencode(source), os.fsencode(target), kind.encode(), ctypes.c_ulong(flags), os.fsencode(options))


def die_with_parent(signal: int) -> None:
    """Have the kernel send `signal` to this process when its parent ends, however it ends."""
    if AVAILABLE:
        _call("prctl", _SET_DEATH_SIGNAL, ctypes.c_ulong(signal), *[ctypes.c_ulong(0)] * 3)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends."""
    if AVAILABLE:
        _call("prctl", _SET_SUBREAPER, ctypes.c_ulong(1), *[ctypes.c_ulong(0)] * 3)


def may_administer() -> bool:
    """Whether this process may make namespaces and mounts as it is."""
    with contextlib.suppress(OSError):
        for line in pathlib.Path("/proc/self/status").read_text("ascii").splitlines():
            if line.startswith("CapEff:"):
                return bool(int(line.split()[1], 16) >> _ADMINISTRATOR & 1)
    return False


def become_own_administrator() -> None:
    """Enter a new user namespace with the same user, and keep its capabilities for the programs that are executed."""
    user, group = os.getuid(), os.getgid()
    unshare(NEW_USER)
    pathlib.Path("/proc/self/setgroups").write_text("deny", "ascii")
    pathlib.Path("/proc/self/uid_map").write_text(f"{user} {user} 1", "ascii")
    pathlib.Path("/proc/self/gid_map").write_text(f"{group} {group} 1", "ascii")
    header, data = _capability_header(), (ctypes.c_uint32 * 6)()
    _call("capget", header, data)
    for half in (0, 3):
        data[half + 2] = data[half + 1]  # inheritable: all that is permitted
    _call("capset", header, data)
    for capability in range(64):
        if data[1 + 3 * (capability // 32)] >> capability % 32 & 1:
            _call("prctl", _AMBIENT, *[ctypes.c_ulong(n) for n in (_AMBIENT_RAISE, capability, 0, 0)])


def drop_capabilities() -> None:
    """Be an ordinary process of its user again."""
    _call("capset", _capability_header(), (ctypes.c_uint32 * 6)())


def raise_loopback() -> None:
    """Bring up the loopback device of a new network namespace."""
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as device:
        request = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(device, _GET_FLAGS, request))[1]
        fcntl.ioctl(device, _SET_FLAGS, struct.pack("16sh14x", b"lo", flags | _UP))


def flush_c_streams() -> None:
    """Write out what C code has printed: a fork would print it twice, and `os._exit` never."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).fflush(None)


def _capability_header() -> ctypes.Array[ctypes.c_uint32]:
    return (ctypes.c_uint32 * 2)(_CAPABILITIES_VERSION, 0)


def _call(name: str, *arguments: object) -> None:
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
