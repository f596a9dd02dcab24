"""Scripts that start their own processes: the worker function runs in this process, as this rank.

Every rank of the run executes the whole script; where it would start its ranks, each runs the worker that is its own.
In a reference there is one worker. A size of the world that the script hands to its workers becomes that of the run.
"""

from __future__ import annotations

import argparse
import builtins
import copy
import importlib
import inspect
import multiprocessing
import os
import pathlib
import runpy
import shlex
import subprocess
import sys
import types
from collections.abc import Callable, Sequence
from multiprocessing.process import BaseProcess
from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing

from dpcheck.verify.session import Session
from dpcheck.verify.shim.importing import AdaptingFinder
from dpcheck.verify.shim.patching import Function, Patches
from dpcheck.verify.shim.seeds import Seeds

STARTED = "launcher"
"""The kind of note that tells that the script started its own ranks."""

_SIZES = frozenset(
    "world_size worldsize world ws size nprocs nproc num_procs n_procs nproc_per_node num_processes gpus num_gpus "
    "n_gpus n_gpu ngpus ngpu gpu_num ngpus_per_node num_gpus_per_node num_gpus_per_machine gpus_per_node "
    "num_replicas".split()
)
_RANKS = frozenset("rank local_rank dist_rank gpu gpu_id proc_id process_id".split())
_LAUNCHERS = ("torch.distributed.launch", "torch.distributed.run", "accelerate.commands.launch")
_PROGRAMS = ("torchrun", "accelerate-launch")
_OF_THE_RUN = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "GROUP_RANK")


def install(session: Session, patches: Patches, finder: AdaptingFinder) -> None:
    workers = _Workers(session)
    spawn_module: Any = sys.modules["torch.multiprocessing.spawn"]
    for name in ("spawn", "start_processes"):
        patches.replace(spawn_module, name, workers.spawn)
        patches.replace(torch.multiprocessing, name, workers.spawn)
    _processes(session, patches, workers)
    _programs(session, patches, workers)
    finder.adapt("torch.distributed.launcher.api", lambda module: _elastic(patches, workers, module))
    finder.adapt("accelerate.launchers", lambda module: _notebook(workers, module))


class _Workers:
    """Runs workers in this process."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._seeds = Seeds(session)

    @property
    def rank(self) -> int:
        return self._session.job.rank

    def note(self, how: str) -> None:
        self._session.note(STARTED, f"{how}: each worker ran in the process of its rank", self._session.here())

    def spawn(
        self,
        fn: Any,
        args: tuple[Any, ...] = (),
        nprocs: int = 1,
        join: bool = True,
        daemon: bool = False,
        start_method: str = "spawn",
    ) -> Any:
        """In place of `torch.multiprocessing.spawn` and `start_processes`."""
        self.note(f"multiprocessing.{'spawn' if start_method == 'spawn' else 'start_processes'} with nprocs={nprocs}")
        args = _resized(fn, args, 1, nprocs, self._session.job.world_size)
        self.run(fn, (self._session.job.rank, *args), {}, method=start_method)
        return None if join else _Finished()

    def run(self, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], *, method: str) -> None:
        """Call the worker as a process started by `method`, and take down the process group that it leaves behind."""
        if method == "fork":
            self._seeds.forked()
        else:
            self._seeds.afresh()
        before = dist.is_initialized()
        try:
            function(*args, **kwargs)
        except SystemExit as exit:
            if exit.code not in (None, 0):
                raise
        if dist.is_initialized() and not before:
            dist.destroy_process_group()

    def run_script(self, script: str, arguments: Sequence[str], *, module: bool) -> int:
        """Execute a script as a launcher would start it."""
        sys.argv = [script, *arguments]
        try:
            self.run(_execute_module if module else _execute, (script,), {}, method="spawn")
        except SystemExit as exit:
            return exit.code if isinstance(exit.code, int) else 1
        return 0


def _execute(script: str) -> None:
    path = pathlib.Path(script)
    main: Any = types.ModuleType("__main__")
    main.__file__ = script
    main.__builtins__ = builtins
    sys.modules["__main__"] = main
    sys.path.insert(0, str(path.parent.absolute()))
    exec(compile(path.read_bytes(), script, "exec"), main.__dict__)


def _execute_module(name: str) -> None:
    runpy.run_module(name, run_name="__main__", alter_sys=True)


class _Finished:
    """What `spawn(join=False)` returns: all processes are done."""

    processes: tuple[()] = ()

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        return True

    def pids(self) -> list[int]:
        return []


# -- the size of the world among the arguments of a worker


def _resized(function: Any, args: tuple[Any, ...], skipped: int, size: int | None, world: int) -> tuple[Any, ...]:
    """The arguments with the size of the world that of the run, wherever their names say that they are such a size.

    `skipped` parameters of the function come before `args`. `size` is how many processes the script starts, where
    known: then only arguments of that value are sizes of the world.
    """
    if size == world:
        return args
    names = _parameter_names(function)[skipped:]
    names += [""] * (len(args) - len(names))
    return tuple(_resized_value(name, value, size, world) for name, value in zip(names, args, strict=False))


def _resized_value(name: str, value: Any, size: int | None, world: int) -> Any:
    if _is_size(name, value, size):
        return world
    if isinstance(value, (argparse.Namespace, types.SimpleNamespace)):
        attributes = vars(value)
    elif type(value) is dict:
        attributes = value
    elif type(value) in (list, tuple):
        return type(value)(_resized_value("", item, size, world) for item in value)
    else:
        return value
    wrong = [key for key, item in attributes.items() if isinstance(key, str) and _is_size(key, item, size)]
    if not wrong:
        return value
    value = copy.copy(value)
    (value if isinstance(value, dict) else vars(value)).update(dict.fromkeys(wrong, world))
    return value


def _is_size(name: str, value: Any, size: int | None) -> bool:
    if type(value) is not int or name.lower() not in _SIZES:
        return False
    return value > 1 if size is None else value == size


def _parameter_names(function: Any) -> list[str]:
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return []


# -- Process(target=…) in a loop


def _processes(session: Session, patches: Patches, workers: _Workers) -> None:
    started: dict[Any, int] = {}  # how many processes were started of each target

    def launches(process: Any) -> int | None:
        """The rank that the process would be; None where it is no rank: a reader of data, a writer of logs."""
        target = getattr(process, "_target", None)
        code = getattr(target, "__code__", None)
        if code is None or not session.places.is_users(code.co_filename) or dist.is_initialized() or session.inside:
            return None
        number = started.get(target, 0)
        if number == 0:
            if not any(_is_rank_0(argument) for argument in (*process._args, *process._kwargs.values())):
                return None
        started[target] = number + 1
        return number

    def starting(original: Function) -> Function:
        def start(self: Any) -> None:
            number = launches(self)
            if number is None:
                return original(self)  # type: ignore[no-any-return]
            self._dpcheck_done = True
            if number == session.job.rank:
                workers.note(f"Process(target={self._target.__name__})")
                args = _resized(self._target, tuple(self._args), 0, None, session.job.world_size)
                kwargs = {
                    name: _resized_value(name, value, None, session.job.world_size)
                    for name, value in self._kwargs.items()
                }
                method = getattr(self, "_start_method", None) or multiprocessing.get_start_method()
                workers.run(self._target, args, kwargs, method=method)
            return None

        return start

    def after(value: Any) -> Callable[[Function], Function]:
        """What a process that we ran says when it is asked."""

        def make(original: Function) -> Function:
            def method(self: Any, *args: Any, **kwargs: Any) -> Any:
                if getattr(self, "_dpcheck_done", False):
                    return value
                return original(self, *args, **kwargs)

            return method

        return make

    patches.wrap(BaseProcess, "start", starting)
    patches.wrap_each(BaseProcess, ("join", "terminate", "kill", "close"), after(None))
    patches.wrap(BaseProcess, "is_alive", after(False))
    for name, value in (("exitcode", 0), ("pid", os.getpid()), ("ident", os.getpid()), ("sentinel", _closed_pipe())):
        read = vars(BaseProcess).get(name)
        if isinstance(read, property) and read.fget is not None:
            setattr(BaseProcess, name, property(after(value)(read.fget)))


def _is_rank_0(argument: Any) -> bool:
    """Whether the first of the processes is told so by this argument."""
    if isinstance(argument, argparse.Namespace):
        return any(name in _RANKS and type(value) is int and value == 0 for name, value in vars(argument).items())
    return type(argument) is int and argument == 0


def _closed_pipe() -> int:
    """A file that is ready to be read, as the sentinel of a process that has ended."""
    read, write = os.pipe()
    os.close(write)
    return read


# -- launchers as programs, and from Python


class _Command:
    """A launcher's command line: the script that it would start, and the script's arguments."""

    def __init__(self, script: str, arguments: list[str], module: bool) -> None:
        self.script = script
        self.arguments = arguments
        self.module = module


def read_command(command: Any) -> _Command | None:
    """The command if it is one of torch's or Accelerate's launchers."""
    if isinstance(command, (str, bytes, os.PathLike)):
        try:
            words = shlex.split(os.fsdecode(command))
        except ValueError:
            return None
    else:
        words = [os.fsdecode(word) for word in command]
    while words and "=" in words[0] and not words[0].startswith("-"):
        words = words[1:]
    if not words:
        return None
    program = pathlib.PurePath(words[0]).name
    if program in _PROGRAMS:
        launcher, rest = program, words[1:]
    elif program == "accelerate" and words[1:2] == ["launch"]:
        launcher, rest = program, words[2:]
    elif program.startswith("python") and "-m" in words and words[words.index("-m") + 1 :][:1]:
        position = words.index("-m") + 1
        launcher, rest = words[position], words[position + 1 :]
        if launcher not in _LAUNCHERS:
            return None
    else:
        return None
    return _of_launcher(launcher, rest)


def _of_launcher(launcher: str, arguments: list[str]) -> _Command | None:
    if launcher.startswith("accelerate"):
        parser = importlib.import_module("accelerate.commands.launch").launch_command_parser()
    else:
        from torch.distributed.run import get_args_parser

        parser = get_args_parser()
        parser.add_argument("--use-env", "--use_env", action="store_true")
    try:
        options = parser.parse_args(arguments)
    except SystemExit:
        return None
    return _Command(options.training_script, list(options.training_script_args), bool(options.module))


def _programs(session: Session, patches: Patches, workers: _Workers) -> None:
    def opening(original: Function) -> Function:
        def initialize(self: Any, args: Any, *rest: Any, **kwargs: Any) -> None:
            command = None if session.inside else read_command(args)
            if command is None:
                original(self, args, *rest, **kwargs)
                return
            workers.note("the script started a launcher")
            environment = kwargs.get("env")
            if environment is not None:
                os.environ.update({name: value for name, value in environment.items() if name not in _OF_THE_RUN})
            status = workers.run_script(command.script, command.arguments, module=command.module)
            # A process that is over, with the pipes that were asked for.
            kwargs.pop("shell", None)
            kwargs.pop("executable", None)
            with session.looking_away():
                original(self, ["sh", "-c", f"exit {status}"], *rest, **kwargs)

        return initialize

    def system(original: Function) -> Function:
        def run(command: Any) -> int:
            read = None if session.inside else read_command(command)
            if read is None:
                status: int = original(command)
                return status
            workers.note("the script started a launcher")
            return workers.run_script(read.script, read.arguments, module=read.module) << 8

        return run

    patches.wrap(subprocess.Popen, "__init__", opening)
    patches.wrap(os, "system", system)


def _elastic(patches: Patches, workers: _Workers, module: ModuleType) -> None:
    """`torch.distributed.run.main()`, `elastic_launch(config, function)(…)` and what is built on them."""

    def launch(entrypoint: Any, args: Sequence[Any], method: str) -> dict[int, Any]:
        workers.note("the script called the elastic launcher")
        if callable(entrypoint):
            results: list[Any] = []
            workers.run(lambda *given: results.append(entrypoint(*given)), args, {}, method=method)
            return {workers.rank: results[0] if results else None}
        words = [word for word in args if word != "-u"]
        is_module = words[:1] == ["-m"]
        script, *arguments = words[1:] if is_module else words
        status = workers.run_script(script, arguments, module=is_module)
        if status:
            raise SystemExit(status)
        return {workers.rank: None}

    def call(self: Any, *args: Any) -> dict[int, Any]:
        return launch(self._entrypoint, args, self._config.start_method)

    def launch_agent(config: Any, entrypoint: Any, args: Sequence[Any]) -> dict[int, Any]:
        return launch(entrypoint, args, config.start_method)

    patches.replace(module.elastic_launch, "__call__", call)
    patches.replace(module, "launch_agent", launch_agent)


def _notebook(workers: _Workers, module: ModuleType) -> None:
    names: Any = module

    def launch(function: Any, args: Any = (), num_processes: int | None = None, *rest: Any, **kwargs: Any) -> None:
        workers.note("a notebook launcher")
        workers.run(function, args, {}, method="fork")

    names.notebook_launcher = launch
    names.debug_launcher = launch
