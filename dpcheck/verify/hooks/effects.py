"""What the script does to the world outside: listed, and kept from leaving a trace.

Files, programs and network addresses are seen by an audit hook, which is also where a connection to anything but this
machine is refused. Trackers and uploads to model hubs are muted. The files themselves are the sandbox's business; where
there is none, saved tensors and checkpoints go to a folder of the run instead.
"""

from __future__ import annotations

import concurrent.futures
import errno
import functools
import ipaddress
import os
import pathlib
import socket
import sys
import tempfile
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch

from dpcheck.verify.session import Session
from dpcheck.verify.shim import importing

_KEPT = 1000  # entries of each list
_LONGEST = 300  # characters of an entry
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_LOCAL_NAMES = {"", "localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback", "0.0.0.0", "::"}

_MUTED: dict[
    str, dict[str, dict[str, Any]]
] = {  # by module: the functions that open a connection, and the argument that keeps them from it
    "wandb": {"init": {"mode": "disabled"}},
    "neptune": {"init_run": {"mode": "debug"}, "init_model": {"mode": "debug"}},
    "swanlab": {"init": {"mode": "disabled"}},
    "comet_ml": {"Experiment.__init__": {"disabled": True}, "ExistingExperiment.__init__": {"disabled": True}},
}


class Effects:
    """Lists what one process does to the world, and refuses it the network."""

    def __init__(self, session: Session) -> None:
        self._session = session
        job = session.job
        private = [job.folder, job.shared, tempfile.gettempdir(), os.environ.get("TMPDIR") or job.folder]
        self._private = (*(f"{os.path.realpath(folder)}{os.sep}" for folder in private), "/dev/", "/proc/")
        self._listed: set[tuple[int, str]] = set()
        self._own: set[str] | None = None
        self._busy = False
        self._handlers: dict[str, Callable[[Any], OSError | None]] = {
            "open": lambda args: self._opened(*args),
            "os.remove": lambda args: self._wrote(args[0], args[1]),
            "os.rename": lambda args: self._wrote(args[0], args[2]) or self._wrote(args[1], args[3]),
            "os.truncate": lambda args: self._wrote(args[0]),
            "os.link": lambda args: self._wrote(args[1], args[3]),
            "os.symlink": lambda args: self._wrote(args[1], args[2]),
            "os.rmdir": lambda args: self._wrote(args[0], args[1]),
            "shutil.rmtree": lambda args: self._wrote(args[0]),
            "sqlite3.connect": lambda args: self._wrote(args[0]),
            "subprocess.Popen": lambda args: self._started(args[1]),
            "os.system": lambda args: self._started(args[0]),
            "os.posix_spawn": lambda args: self._started(args[1]),
            "os.exec": lambda args: self._started(args[1]),
            "socket.connect": lambda args: self._connects(*args),
            "socket.sendto": lambda args: self._reaches(*args),
            "socket.sendmsg": lambda args: self._reaches(*args),
            "socket.getaddrinfo": lambda args: self._looks_up(args[0], args[1], socket.gaierror),
            "socket.gethostbyname": lambda args: self._looks_up(args[0], None, socket.gaierror),
            "socket.gethostbyaddr": lambda args: self._looks_up(args[0], None, socket.herror),
        }

    def audit(self, event: str, args: tuple[Any, ...]) -> None:
        """The audit hook: called for every event of the interpreter, and so fast for those that do not matter."""
        handler = self._handlers.get(event)
        if handler is None or self._busy:
            return
        try:
            refusal = handler(args)
        except Exception:  # an event of another shape than the documented one
            return
        if refusal is not None:
            raise refusal

    def _list(self, entries: list[str], entry: str) -> bool:
        """Whether the entry is new. A child of this process that the script forked lists nothing."""
        entry = entry[:_LONGEST]
        if self._session.inside or (id(entries), entry) in self._listed:
            return False
        self._listed.add((id(entries), entry))
        if len(entries) < _KEPT:
            entries.append(entry)
        return True

    # -- files and programs

    def _opened(self, path: Any, mode: Any, flags: int) -> OSError | None:
        return self._wrote(path) if flags & _WRITING else None

    def _wrote(self, path: Any, folder: int = -1) -> OSError | None:
        if folder == -1:  # else the path is relative to an open folder: `shutil.rmtree` has told of all of it
            self.wrote(path)
        return None

    def wrote(self, path: Any) -> None:
        """List a file that was written, made or removed."""
        if isinstance(path, (str, bytes, os.PathLike)):
            name = _absolute(path)
            if not self.is_private(name) and "__pycache__" not in name:
                self._list(self._session.recording.written, name)

    def listing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """`torch.save`, which writes from C++ and so past the audit hook."""

        @functools.wraps(original)
        def save(obj: object, f: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(obj, f, *args, **kwargs)
            self.wrote(f)
            return result

        return save

    def is_private(self, name: str) -> bool:
        """Whether a file belongs to the run itself, and vanishes with it."""
        return f"{name}/".startswith(self._private)

    def _started(self, command: Any) -> OSError | None:
        words = [command] if isinstance(command, (str, bytes, os.PathLike)) else list(command)
        self._list(self._session.recording.started, " ".join(os.fsdecode(word) for word in words))
        return None

    # -- the network

    def _connects(self, connection: socket.socket, address: Any) -> OSError | None:
        # Connecting a datagram socket sends nothing: it is how scripts learn their own address.
        return None if connection.type == socket.SOCK_DGRAM else self._reaches(connection, address)

    def _reaches(self, connection: socket.socket, address: Any) -> OSError | None:
        if connection.family not in (socket.AF_INET, socket.AF_INET6) or address is None:
            return None
        host, port = address[0], address[1]
        return None if self._is_here(host) else OSError(errno.ENETUNREACH, self._refused(host, port))

    def _looks_up(self, host: Any, port: Any, kind: type[OSError]) -> OSError | None:
        if host is None:
            return None
        name = host.decode("ascii", "replace") if isinstance(host, (bytes, bytearray)) else str(host)
        by_number = kind is not socket.herror and _address(name) is not None  # nobody is asked
        if by_number or self._is_here(name):
            return None
        return kind(socket.EAI_NONAME, self._refused(name, port))

    def _is_here(self, host: str) -> bool:
        """Whether this machine itself is meant."""
        if host in _LOCAL_NAMES:
            return True
        address = _address(host)
        if address is not None and (address.is_loopback or address.is_unspecified):
            return True
        return host in self._own_names()

    def _own_names(self) -> set[str]:
        """This machine's name and the address that it stands for. Asked for late: a resolver may take its time."""
        if self._own is None:
            name = socket.gethostname()
            self._own = {name, name.partition(".")[0]}
            self._busy = True
            try:
                self._own.add(socket.gethostbyname(name))
            except OSError:
                pass
            finally:
                self._busy = False
        return self._own

    def _refused(self, host: str, port: Any) -> str:
        target = f"{host}:{port}" if port else host
        session = self._session
        if self._list(session.recording.connected, target):
            session.note("network", f"the script asked for the network: {target}", session.here())
        return f"dpcheck verify runs scripts without a network, and {target} was refused"


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None


class Trackers:
    """Keeps experiment trackers and model hubs from being written to, whatever mode the script asks them for."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def callbacks(self) -> dict[str, Callable[[ModuleType], None]]:
        """What to do once each of the libraries has been imported."""
        muting: dict[str, Callable[[ModuleType], None]] = {
            name: functools.partial(self._mute, functions) for name, functions in _MUTED.items()
        }
        muting |= {"mlflow": self._keep_local, "huggingface_hub.hf_api": self._upload_nothing}
        return {name: functools.partial(self._try, mute) for name, mute in muting.items()}

    def _try(self, mute: Callable[[ModuleType], None], module: ModuleType) -> None:
        try:
            mute(module)
        except Exception as error:
            self._session.note("hook-failed", f"{module.__name__} was not muted: {error!r}")

    def _mute(self, functions: dict[str, dict[str, Any]], module: ModuleType) -> None:
        for path, forced in functions.items():
            owner: Any = module
            *parents, name = path.split(".")
            for parent in parents:
                owner = getattr(owner, parent, None)
            original = getattr(owner, name, None) if owner is not None else None
            if original is not None:
                setattr(owner, name, self._forcing(f"{module.__name__}.{path}", original, forced))

    def _forcing(self, title: str, original: Callable[..., Any], forced: dict[str, Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def muted(*args: Any, **kwargs: Any) -> Any:
            self._session.note("tracker", f"{title} was called and kept from the network", self._session.here())
            return original(*args, **{**kwargs, **forced})

        return muted

    def _keep_local(self, module: Any) -> None:
        """mlflow asks a server again and again for minutes before it gives up."""
        original = module.set_tracking_uri

        @functools.wraps(original)
        def set_tracking_uri(uri: Any) -> Any:
            if str(uri).startswith(("http:", "https:", "databricks")):
                self._session.note("tracker", "mlflow was kept from its server", self._session.here())
                return None
            return original(uri)

        module.set_tracking_uri = set_tracking_uri

    def _upload_nothing(self, module: Any) -> None:
        """Uploads to the Hugging Face hub succeed and do nothing."""
        interface = module.HfApi
        for name in ("create_repo", "create_commit", "upload_file", "upload_folder", "upload_large_folder"):
            original = getattr(interface, name, None)
            if original is None:
                continue
            setattr(interface, name, self._uploading(module, name, original))
            if hasattr(module, name):
                setattr(module, name, getattr(module.api, name))

    def _uploading(self, module: Any, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def uploaded(interface: Any, *args: Any, **kwargs: Any) -> Any:
            self._session.note("tracker", f"{name} was called and nothing uploaded", self._session.here())
            repository = kwargs.get("repo_id") or (args[0] if args else "")
            url = f"{interface.endpoint}/{repository if '/' in str(repository) else f'user/{repository}'}"
            if name == "create_repo":
                return module.RepoUrl(url, endpoint=interface.endpoint)
            commit = module.CommitInfo(f"{url}/commit/{'0' * 40}", "", "", "0" * 40)
            if not kwargs.get("run_as_future"):
                return commit
            future: concurrent.futures.Future[Any] = concurrent.futures.Future()
            future.set_result(commit)
            return future

        return uploaded


class Scratch:
    """Where no sandbox holds what is written, `torch.save` writes into the run's own folder.

    The copy is what `torch.load` and tests for the file's existence find, and what is removed or renamed in its stead.
    All ranks of a run share the copies.
    """

    def __init__(self, session: Session, effects: Effects) -> None:
        self._folder = f"{session.job.shared}/written"
        self._session = session
        self._effects = effects

    def install(self) -> None:
        patched: Any = torch
        patched.save = self._saving(torch.save)
        patched.load = self._from_copy(torch.load)
        system: Any = os
        for name in ("stat", "remove", "unlink"):
            setattr(system, name, self._from_copy(getattr(os, name)))
        for name in ("rename", "replace"):
            setattr(system, name, self._renaming(getattr(os, name)))
        for wrapper in (os.stat, os.unlink, os.rename):
            os.supports_dir_fd.add(wrapper)
        os.supports_follow_symlinks.add(os.stat)

    def _copy_of(self, path: Any) -> str | None:
        """Where the copy of a file is or would be; None for what is no path, or private anyway."""
        if not isinstance(path, (str, os.PathLike)):
            return None
        name = _absolute(path)
        return None if self._effects.is_private(name) else self._folder + name

    def _existing_copy_of(self, path: Any) -> str | None:
        copy = self._copy_of(path)
        return copy if copy is not None and _there(copy) else None

    def _saving(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def save(obj: object, f: Any, *args: Any, **kwargs: Any) -> Any:
            copy = None if self._session.inside else self._copy_of(f)
            if copy is None or not _there(str(pathlib.Path(f).parent)):
                return original(obj, f, *args, **kwargs)
            pathlib.Path(copy).parent.mkdir(parents=True, exist_ok=True)
            return original(obj, copy, *args, **kwargs)

        return save

    def _from_copy(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def read(path: Any, *args: Any, **kwargs: Any) -> Any:
            copy = self._existing_copy_of(path) if kwargs.get("dir_fd") is None else None
            return original(path if copy is None else copy, *args, **kwargs)

        return read

    def _renaming(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def rename(src: Any, dst: Any, **kwargs: Any) -> Any:
            copy = self._existing_copy_of(src) if not kwargs else None
            target = self._copy_of(dst)
            if copy is None or target is None:
                return original(src, dst, **kwargs)
            pathlib.Path(target).parent.mkdir(parents=True, exist_ok=True)
            return original(copy, target)

        return rename


_lstat = os.lstat


def _there(path: str) -> bool:
    try:
        _lstat(path)
    except OSError:
        return False
    return True


def _absolute(path: Any) -> str:
    return os.path.abspath(os.fsdecode(path))  # noqa: PTH100 - a link's own name is meant, and the file may not exist


def install(session: Session) -> None:
    """From here on the process has no network but the loopback."""
    effects = Effects(session)
    sys.addaudithook(effects.audit)
    if not session.files_are_private:
        Scratch(session, effects).install()
    patched: Any = torch
    patched.save = effects.listing(torch.save)
    finder = importing.install()
    for name, mute in Trackers(session).callbacks().items():
        finder.adapt(name, mute)
