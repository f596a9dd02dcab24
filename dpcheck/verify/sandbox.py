"""The sandbox of one run: what its processes write, start and connect to is theirs alone, and gone when it is closed.

A sandbox is a process with namespaces of its own, which the processes of the run enter. Its directories are overlaid:
reads see the real files, writes go to a file system in memory that vanishes with the last process.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import pathlib
import re
import signal
import stat
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping

from dpcheck.verify import linux, processes
from dpcheck.verify.channel import Channel, Close, Closed, Open, Opened
from dpcheck.verify.job import Job

KINDS = ["files", "processes", "network"]

_SHARED_MEMORY = "/dev/shm"
_SYSTEM = ("/proc", "/sys", "/dev", "/run", "/boot", "/etc", "/usr", "/bin", "/sbin", "/lib", "/lib64")
_NOT_STORAGE = re.compile(
    r"proc|sysfs|dev(pts|tmpfs)|cgroup2?|mqueue|debugfs|tracefs|securityfs|bpf|pstore|binfmt_misc|configfs|nsfs|autofs"
    r"|hugetlbfs|fuse\.portal|fusectl|rpc_pipefs|efivarfs"
)
_MOST_LISTED = 1000


def directories_of(job: Job, environment: Mapping[str, str]) -> list[str]:
    """Where the script is likely to write, as existing directories, outermost first."""
    here = pathlib.Path(job.directory)
    wanted = [here, pathlib.Path.home()]
    wanted += [pathlib.Path(folder) for folder in (tempfile.gettempdir(), "/tmp", "/var/tmp")]
    if not job.module:
        wanted.append((here / job.script).parent)
    for folder in (here, (here / job.script).parent):
        wanted += [root for root in (folder, *folder.parents) if (root / ".git").exists()][:1]
    values = [argument.rpartition("=")[2] for argument in job.arguments if "/" in argument]
    values += [value for value in environment.values() if value.startswith(("/", "~/"))]
    for value in map(os.path.expanduser, values):
        if ":/" not in value:
            wanted.append(_nearest_directory(here / value))
    kept = []
    for real in sorted({os.path.realpath(path) for path in wanted}, key=len):
        if real != "/" and not _below(real, _SYSTEM) and pathlib.Path(real).is_dir() and os.access(real, os.W_OK):
            kept.append(real)
    return kept


def what_is_permitted(kinds: Iterable[str], folder: str) -> tuple[list[str], list[str]]:
    """Which kinds of isolation this process may give, tried in an empty `folder`, and why not the others.

    One that has not the rights tries as its own administrator, and has to become that for what is permitted.
    """
    permitted, notes = [], []
    prepare = (lambda: None) if linux.may_administer() else linux.become_own_administrator
    for kind, attempt in (("files", _try_files), ("processes", _try_processes), ("network", _try_network)):
        if kind in kinds:
            refusal = _in_a_child(prepare, functools.partial(attempt, folder))
            if refusal is None:
                permitted.append(kind)
            else:
                notes.append(f"{kind} cannot be made private to a run here ({refusal})")
    return permitted, notes


def namespaces(kinds: Iterable[str]) -> list[int]:
    """The namespaces, by their flags, that a process of a run enters; the one of processes holds for its children."""
    flags = [linux.NEW_IPC]
    if "network" in kinds:
        flags.append(linux.NEW_NETWORK)
    return [*flags, linux.NEW_MOUNTS]


def serve(channel: Channel, request: Open, kinds: Iterable[str]) -> None:
    """Be the sandbox until it is closed, or until the other end of the channel is gone."""
    linux.die_with_parent(signal.SIGKILL)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.chdir("/")
    layers = _Layers(request)
    notes: list[str] = []
    for flag in namespaces(kinds):
        linux.unshare(flag)
    linux.mount("none", "/", flags=linux.RECURSIVE | linux.PRIVATE)
    if "network" in kinds:
        linux.raise_loopback()
    if "files" in kinds:
        notes += layers.mount()
    if "processes" in kinds:
        linux.mount("proc", "/proc", "proc", linux.NO_SET_UID | linux.NO_DEVICES | linux.NO_EXECUTION)
    channel.send(Opened(request.run, os.getpid(), notes))
    while True:
        for _ in processes.reap():
            pass
        message = channel.receive(timeout=0.5)
        if isinstance(message, Close):
            break
    if "processes" in kinds:
        _kill_all_others()
    channel.send(Closed(request.run, layers.written(), layers.remarks()))


class _Layers:
    """The overlaid directories and where what is written below them goes."""

    def __init__(self, request: Open) -> None:
        self._request = request
        self._upper: dict[str, pathlib.Path] = {}
        self._mounted = False

    def mount(self) -> list[str]:
        """Mount them all in the mount namespace of this process. Says which could not be."""
        request = self._request
        flags = linux.NO_SET_UID | linux.NO_DEVICES
        linux.mount("tmpfs", request.scratch, "tmpfs", flags, f"mode=700,size={request.space}")
        os.chdir(request.scratch)  # from here on by relative paths, as an overlay may hide the way to it
        pathlib.Path("tmp").mkdir()
        self._mounted = True
        notes = []
        folder = os.open(request.folder, os.O_PATH | os.O_CLOEXEC)
        chosen = {*_without_the_nested(request.directories), _SHARED_MEMORY}
        inner = _mounts_below(chosen, except_below=request.folder)
        lower: dict[str, int] = {}
        for directory in sorted({*chosen, *inner}, key=len):
            with contextlib.suppress(OSError):
                lower[directory] = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        for directory, file in lower.items():
            refusal = self._overlay(directory, file) if inner.get(directory, True) else ""
            if refusal is not None:
                with contextlib.suppress(OSError):  # within an overlay the real one would be out of sight
                    linux.mount(f"/proc/self/fd/{file}", directory, flags=linux.BIND)
            if refusal:
                notes.append(f"what is written below {directory} is written for real ({refusal})")
        if _below(request.folder, self._upper):
            linux.mount(f"/proc/self/fd/{folder}", request.folder, flags=linux.BIND | linux.RECURSIVE)
        for file in (folder, *lower.values()):
            os.close(file)
        return notes

    def written(self) -> list[str]:
        """The files that were made, changed or removed."""
        found: list[str] = []
        for directory, upper in self._upper.items():
            if directory == _SHARED_MEMORY:
                continue
            for root, folders, files in os.walk(upper):
                folders[:] = [name for name in folders if name != "__pycache__"]
                here = pathlib.Path(directory, pathlib.Path(root).relative_to(upper))
                found += [str(here / name) for name in files]
                if len(found) > _MOST_LISTED:
                    return sorted(found[:_MOST_LISTED])
        return sorted(found)

    def remarks(self) -> list[str]:
        """Whether the room for what is written was used up."""
        if self._mounted:
            room = os.statvfs(".")
            if room.f_bavail * room.f_frsize < max(1 << 16, self._request.space >> 8):
                return [f"the script filled the {self._request.space >> 20} MiB that a run may write"]
        return []

    def _overlay(self, directory: str, lower: int) -> str | None:
        if _holds_what_cannot_be_copied(lower):
            return "parts of it belong to another user or group"
        layer = pathlib.Path("layers", str(len(self._upper)))
        for name in ("upper", "work"):
            (layer / name).mkdir(parents=True)
        permissions = os.fstat(lower)
        (layer / "upper").chmod(stat.S_IMODE(permissions.st_mode))
        with contextlib.suppress(OSError):
            os.chown(layer / "upper", permissions.st_uid, permissions.st_gid)
        refusal = _mount_overlay(f"/proc/self/fd/{lower}", layer, directory)
        if refusal is None:
            self._upper[directory] = layer / "upper"
        return refusal


def _without_the_nested(directories: Iterable[str]) -> list[str]:
    """Those that no other one covers: a directory can be copied to a layer if it and those above it are the user's."""
    kept: list[str] = []
    for directory in sorted(directories, key=len):
        path = pathlib.Path(directory)
        covering = next((outer for outer in kept if _below(directory, [outer])), None)
        between = [
            folder for folder in (path, *path.parents) if covering and _below(str(folder), [covering], itself=False)
        ]
        if covering is None or not all(_is_own(folder.stat()) for folder in between):
            kept.append(directory)
    return kept


def _holds_what_cannot_be_copied(directory: int) -> bool:
    """Whether a directory has folders of others, as far as one looks. In a sticky one nobody touches those anyway."""
    itself = os.stat(directory)
    if itself.st_mode & stat.S_ISVTX:
        return False
    with os.scandir(f"/proc/self/fd/{directory}") as entries:
        folders = [entry.stat(follow_symlinks=False) for entry in entries if entry.is_dir(follow_symlinks=False)]
    return not all(map(_is_own, (itself, *folders)))


def _is_own(what: os.stat_result) -> bool:
    """Whether its owner and group exist in this user namespace: in one that a user made, that user's own ids alone."""
    users = pathlib.Path("/proc/self/uid_map").read_text("ascii").split()
    return users[2] != "1" or (what.st_uid, what.st_gid) == (os.getuid(), os.getgid())


def _mount_overlay(lower: str, layer: pathlib.Path, target: str) -> str | None:
    """Mount, or say why not. Without privileges a directory can be replaced only with `userxattr` (Linux 6.6)."""
    options = f"lowerdir={lower},upperdir={layer}/upper,workdir={layer}/work"
    refusal: str | None = None
    for more in ("", ",userxattr") if os.getuid() == 0 else (",userxattr", ""):
        try:
            linux.mount("overlay", target, "overlay", options=options + more)
        except OSError as error:
            refusal = refusal or str(error.strerror)
        else:
            return None
    return refusal


def _mounts_below(directories: Iterable[str], *, except_below: str) -> dict[str, bool]:
    """The mount points that lie below the directories, which an overlay would hide, and whether each is of storage."""
    found = {}
    for line in pathlib.Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape").splitlines():
        fields = line.split(" ")
        point = re.sub(r"\\(\d{3})", lambda match: chr(int(match[1], 8)), fields[4])
        if _below(point, directories, itself=False) and not _below(point, [except_below]):
            found[point] = not _NOT_STORAGE.fullmatch(fields[fields.index("-") + 1])
    return found


def _kill_all_others() -> None:
    """As process number one: kill every other process of the namespace, and wait until they are gone."""
    end = time.monotonic() + 5.0
    while time.monotonic() < end:
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)
        for _ in processes.reap():
            pass
        others = {path.name for path in pathlib.Path("/proc").iterdir() if path.name.isdigit()} - {"1"}
        if all(map(_is_zombie, others)):
            return
        time.sleep(0.005)


def _is_zombie(process: str) -> bool:
    try:
        return (
            pathlib.Path("/proc", process, "stat").read_text("ascii", "replace").rpartition(")")[2].split()[0] in "ZX"
        )
    except OSError:
        return True


def _try_files(folder: str) -> None:
    linux.unshare(linux.NEW_MOUNTS | linux.NEW_IPC)
    linux.mount("none", "/", flags=linux.RECURSIVE | linux.PRIVATE)
    linux.mount("tmpfs", folder, "tmpfs", options="mode=700,size=65536")
    for name in ("lower", "upper", "work"):
        pathlib.Path(folder, name).mkdir()
    refusal = _mount_overlay(f"{folder}/lower", pathlib.Path(folder), f"{folder}/lower")
    if refusal is not None:
        raise OSError(errno.EPERM, refusal)


def _try_processes(_: str) -> None:
    linux.unshare(linux.NEW_MOUNTS | linux.NEW_IPC)
    linux.mount("none", "/", flags=linux.RECURSIVE | linux.PRIVATE)

    def mount() -> None:
        linux.mount("proc", "/proc", "proc")

    linux.unshare(linux.NEW_PROCESSES)
    refusal = _in_a_child(mount)
    if refusal is not None:
        raise OSError(errno.EPERM, refusal)


def _try_network(_: str) -> None:
    linux.unshare(linux.NEW_NETWORK | linux.NEW_IPC)
    linux.raise_loopback()


def _in_a_child(*attempts: Callable[[], None]) -> str | None:
    """Make the attempts in a child, whose namespaces end with it. The reason where one failed."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            for attempt in attempts:
                attempt()
        except BaseException as error:
            os.write(writing, str(getattr(error, "strerror", None) or error).encode()[:200])
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        reason = pipe.read().decode("utf-8", "replace")
    os.waitpid(child, 0)
    return reason or None


def _nearest_directory(path: pathlib.Path) -> pathlib.Path:
    for folder in (path, *path.parents):
        with contextlib.suppress(OSError):  # a name that is too long
            if folder.is_dir():
                return folder
    return pathlib.Path("/")


def _below(path: str, directories: Iterable[str], *, itself: bool = True) -> bool:
    return any(path.startswith(folder + "/") or (itself and path == folder) for folder in directories)
