"""What a forked process does with its job: it becomes what torchrun would have started, and runs the script."""

from __future__ import annotations

import builtins
import contextlib
import functools
import importlib.machinery
import importlib.util
import os
import pathlib
import random
import resource
import sys
import tempfile
import threading
import time
import traceback
import types
import zipfile
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy
import torch
import torch.distributed

from dpcheck.verify import environment, linux, stacks, telling
from dpcheck.verify.job import Job
from dpcheck.verify.places import Places
from dpcheck.verify.recording import Failure, Place
from dpcheck.verify.session import Session, StopScript

_LINGER = 1.0  # seconds
_MOST_TEXT = 1 << 15
_OURS = str(pathlib.Path(__file__).parent) + os.sep
_COLLECTIVES = str(pathlib.Path(torch.distributed.__file__).parent / "distributed_c10d.py")
_kept: list[object] = []
_exit = os._exit


def run(job: Job, scratch: str, private: bool, installers: Sequence[Callable[[Session], None]]) -> NoReturn:
    """Run the job to its end, and leave. `private` says that what is written vanishes with the run."""
    _settle(job, scratch)
    session = Session(job, Places(_file_of(job)))
    session.files_are_private = private
    stacks.listen(session.folder)
    if session.is_rank:
        telling.listen(session)
    _keep_groups()
    _seed(job.seed)
    process = os.getpid()
    for install in installers:
        install(session)

    def look_away() -> None:
        session.inside += 1

    os.register_at_fork(after_in_child=look_away)
    _record_before_exit(session)
    status = 0
    try:
        session.event("script")
        _execute(job)
        _finish_threads()
    except SystemExit as leaving:
        status = _status_of(leaving)
        _note_exit(session, status, _line_of(leaving, session))
    except StopScript:
        session.recording.ending = "stopped"
    except BaseException as error:
        status = 1
        shown = _traceback(error)
        with contextlib.suppress(Exception):
            sys.stderr.write(shown)
        if os.getpid() == process:
            session.recording.ending = "raised"
            session.recording.failure = _failure(error, shown, session)
    if os.getpid() != process:
        leave(status)  # a child that the script forked came out of the script's end
    session.recording.status = status
    session.inside += 1
    session.finish()
    _flush()
    if status == 0 and session.is_rank and torch.distributed.is_initialized():
        time.sleep(_LINGER)  # what others still read from this process's sockets is not to be lost
    leave(status)


def _record_before_exit(session: Session) -> None:
    """`os._exit` ends the process and asks nobody: have it leave the recording behind."""
    process = os.getpid()

    @functools.wraps(_exit)
    def exit_at_once(status: int) -> NoReturn:
        if os.getpid() == process:
            _note_exit(session, status & 0xFF, session.places.here())
            with contextlib.suppress(Exception):
                session.inside += 1
                session.finish()
        _exit(status)

    os._exit = exit_at_once


def _note_exit(session: Session, status: int, place: Place) -> None:
    recorded = session.recording
    recorded.ending, recorded.status, recorded.left_at = "exited" if status else "ended", status, place


def _line_of(error: BaseException, session: Session) -> Place:
    """The innermost line of the user's code that the exception came through."""
    place = Place()
    for frame, line in traceback.walk_tb(error.__traceback__):
        if session.places.is_users(frame.f_code.co_filename):
            place = Place(frame.f_code.co_filename, line)
    return place


def _settle(job: Job, scratch: str) -> None:
    """Environment, working directory, and the defaults of a process that was not forked."""
    os.environ.update(environment.of_job(job, f"{scratch}/tmp"))
    tempfile.tempdir = None
    os.chdir(job.directory)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(line_buffering=True)
    sys.dont_write_bytecode = True
    importlib.invalidate_caches()


def _seed(seed: int | None) -> None:
    """Forked processes share their parent's generators; started ones would not."""
    if seed is None:
        torch.seed()
        random.seed()
        numpy.random.seed()
    else:
        torch.manual_seed(seed)
        random.seed(seed)
        numpy.random.seed(seed % 2**32)


def _keep_groups() -> None:
    """Keep process groups alive after they were destroyed: the end of one can hang, or abort the process."""
    groups = torch.distributed.distributed_c10d
    original = groups.destroy_process_group

    def destroy_process_group(group: Any = None) -> None:
        _kept.append((groups.GroupMember.WORLD, list(groups._world.pg_map)))
        original(group)

    for module in (torch.distributed, groups):
        module.destroy_process_group = destroy_process_group  # type: ignore[attr-defined]


def _file_of(job: Job) -> pathlib.Path:
    """The file of the script, found without executing anything."""
    if not job.module:
        return pathlib.Path(job.directory, job.script)
    search: Sequence[str] | None = [job.directory, *sys.path]
    name, origin = "", None
    for part in (*job.script.split("."), "__main__"):
        name = f"{name}.{part}".lstrip(".")
        spec = importlib.machinery.PathFinder.find_spec(name, search)
        if spec is None:
            break
        origin, search = spec.origin or origin, spec.submodule_search_locations
        if search is None:
            break
    return pathlib.Path(origin) if origin else pathlib.Path(job.directory, job.script)


def _execute(job: Job) -> None:
    """Run the script in a new `__main__`, as `python script`, `python folder` or `python -m module` would."""
    main = types.ModuleType("__main__")
    main.__dict__.update(__builtins__=builtins, __annotations__={}, __cached__=None)
    _kept.append(sys.modules["__main__"])
    sys.modules["__main__"] = main
    safe = getattr(sys.flags, "safe_path", False)
    if job.module:
        sys.argv = ["-m", *job.arguments]
        if not safe:
            sys.path.insert(0, str(pathlib.Path.cwd()))
        code = _prepare_module(main, _spec_of(job.script))
    else:
        path = pathlib.Path(os.path.normpath(pathlib.Path.cwd() / job.script))
        sys.argv = [job.script, *job.arguments]
        if path.is_dir() or zipfile.is_zipfile(path):
            sys.path.insert(0, job.script)
            spec = importlib.machinery.PathFinder.find_spec("__main__", [job.script])
            if spec is None:
                raise ImportError(f"can't find '__main__' module in {job.script!r}")
            code = _prepare_module(main, spec)
            sys.argv[0] = job.script
        else:
            if not safe:
                sys.path.insert(0, str(path.resolve().parent))
            main.__file__ = str(path)
            main.__loader__ = importlib.machinery.SourceFileLoader("__main__", str(path))
            code = compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
    exec(code, main.__dict__)


def _spec_of(name: str) -> importlib.machinery.ModuleSpec:
    spec = importlib.util.find_spec(name)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = importlib.util.find_spec(name + ".__main__")
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    return spec


def _prepare_module(main: types.ModuleType, spec: importlib.machinery.ModuleSpec) -> types.CodeType:
    loader: Any = spec.loader
    code: types.CodeType | None = loader.get_code(spec.name)
    if code is None:
        raise ImportError(f"no code object for {spec.name}", name=spec.name)
    main.__spec__ = spec
    main.__loader__ = spec.loader
    main.__package__ = spec.parent
    main.__file__ = sys.argv[0] = spec.origin or spec.name
    main.__dict__["__cached__"] = spec.cached
    return code


def _finish_threads() -> None:
    """Wait for threads that outlive the script's last line, as the interpreter does before it ends."""
    others = [thread for thread in threading.enumerate() if thread is not threading.main_thread()]
    shutdown = getattr(threading, "_shutdown", None)
    if shutdown is not None and any(not thread.daemon for thread in others):
        shutdown()


def _status_of(leaving: SystemExit) -> int:
    if leaving.code is None:
        return 0
    if isinstance(leaving.code, int):
        return leaving.code & 0xFF
    with contextlib.suppress(Exception):
        print(leaving.code, file=sys.stderr)
    return 1


def _traceback(error: BaseException) -> str:
    """The traceback as Python prints it, without the frames of dpcheck."""
    try:
        shown = traceback.TracebackException.from_exception(error)
        _strip(shown)
        text = "".join(shown.format())
    except Exception:  # an exception of the script's own may fail to be printed
        text = f"{type(error).__name__}\n"
    if len(text) > _MOST_TEXT:
        text = f"{text[: _MOST_TEXT // 2]}\n…\n{text[-_MOST_TEXT // 2 :]}"
    return text


def _strip(shown: traceback.TracebackException) -> None:
    hidden = (_OURS, "<frozen importlib", "<frozen runpy")
    shown.stack = traceback.StackSummary.from_list([f for f in shown.stack if not f.filename.startswith(hidden)])
    for other in (shown.__cause__, shown.__context__, *(getattr(shown, "exceptions", None) or ())):
        if other is not None:
            _strip(other)


def _failure(error: BaseException, shown: str, session: Session) -> Failure:
    try:
        message = str(error)[:_MOST_TEXT]
    except Exception:
        message = ""
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    place = Place()
    collective: str | None = None
    for frame, line in traceback.walk_tb(error.__traceback__):
        code = frame.f_code
        if session.places.is_users(code.co_filename):
            place = Place(code.co_filename, line)
            collective = None
        elif code.co_filename == _COLLECTIVES and collective is None and hasattr(torch.distributed, code.co_name):
            collective = code.co_name
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        if session.places.is_users(error.filename):
            place = Place(error.filename, error.lineno)
    if collective is None and _is_of_a_transport(message):
        collective = session.status.last.inside or "gradient reduction"
    return Failure(name, message, shown, place, collective)


def _is_of_a_transport(message: str) -> bool:
    return any(word in message for word in ("third_party/gloo", "gloo/transport", "ProcessGroup", "NCCL error"))


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        with contextlib.suppress(BaseException):
            if stream is not None:
                stream.flush()
    linux.flush_c_streams()


def leave(status: int) -> NoReturn:
    """End the process at once: the interpreter's own way out runs destructors of process groups that can deadlock."""
    _flush()
    _exit(status)
