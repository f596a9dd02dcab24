"""The command line: one command a file, imported when it is needed."""

from __future__ import annotations

import importlib
import os
import pathlib
import sys
import traceback
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NoReturn

import click

import dpcheck

if TYPE_CHECKING:
    from dpcheck.config import Settings
    from dpcheck.findings.result import InternalError

COMMANDS = ("check", "describe", "explain", "rules", "verify")


class Failure(click.ClickException):
    """Wrong usage, a wrong configuration or a missing path."""

    exit_code = 2

    def format_message(self) -> str:
        from dpcheck.report.style import shown

        return shown(self.message)


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"dpcheck.cli.{cmd_name}").command
        return command


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(dpcheck.__version__, "-V", "--version", prog_name="dpcheck")
def cli() -> None:
    """Find what makes data-parallel training compute another update than one process would."""


def load_settings() -> Settings:
    """The settings for a command that is started in the current directory. Raises `Failure`."""
    from dpcheck import config

    try:
        return config.load(pathlib.Path.cwd())
    except OSError as error:
        raise Failure(f"cannot use the current directory: {error.strerror}") from error
    except config.ConfigError as error:
        raise Failure(str(error)) from error


def as_paths(ctx: click.Context, param: click.Parameter, value: str | tuple[str, ...]) -> Any:
    """An argument as a path, or several as paths. An empty one is no folder, least of all the current one."""
    if value == "" or "" in (value if isinstance(value, tuple) else ()):
        raise click.BadParameter("a path is empty")
    return tuple(map(pathlib.Path, value)) if isinstance(value, tuple) else pathlib.Path(value)


def say(text: str, *, color: bool | None = None) -> None:
    """Print to standard output. Raises `Failure` when it takes no more."""
    try:
        click.echo(text, nl=False, color=color)
    except BrokenPipeError:
        raise
    except OSError as error:
        _discard_output()
        raise Failure(_unwritable(error)) from error


def complain(
    *,
    missing: Iterable[str] = (),
    irregular: Iterable[str] = (),
    unlisted: Iterable[str] = (),
    errors: Iterable[InternalError] = (),
) -> bool:
    """Say on standard error what kept a command from doing all that it was asked to. True when nothing did."""
    from dpcheck.report.style import shown

    complaints = [
        *(f"error: no such file or folder: {shown(path)}" for path in missing),
        *(f"error: neither a file nor a folder: {shown(path)}" for path in irregular),
        *(f"error: cannot look into the folder {shown(path)}" for path in unlisted),
        *(f"internal error while {error.doing} from {shown(error.path)}:\n{error.traceback}" for error in errors),
    ]
    for complaint in complaints:
        click.echo(complaint, err=True)
    return not complaints


def main() -> NoReturn:
    """Run the command line and leave with its exit code. A closed pipe ends it without a word."""
    _open_streams()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a report never fails on a narrow encoding
    try:
        status = cli.main(prog_name="dpcheck", standalone_mode=False) or 0
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        status = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        status = 130
    except BrokenPipeError:
        _discard_output()
        status = 141
    except MemoryError:
        click.echo("error: out of memory", err=True)
        status = 2
    except Exception as error:
        if isinstance(error, OSError) and error.filename is None:  # click's own output, as of --help
            _discard_output()
            click.echo(f"error: {_unwritable(error)}", err=True)
        else:
            click.echo(f"internal error:\n{traceback.format_exc()}", err=True, nl=False)
        status = 2
    sys.exit(status)


def _open_streams() -> None:
    """Open standard streams that are closed: else the next file to be opened would take their number and their text."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))


def _discard_output() -> None:
    """What is still buffered has nowhere to go: without this, the interpreter complains about it on its way out."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _unwritable(error: OSError) -> str:
    return f"cannot write to standard output: {error.strerror}"
