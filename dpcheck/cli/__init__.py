"""The command line: one command a file, imported when it is needed."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from typing import NoReturn

import click

import dpcheck

COMMANDS = ("check", "describe", "explain", "rules")


class Failure(click.ClickException):
    """Wrong usage, a wrong configuration or a missing path."""

    exit_code = 2


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


def main() -> NoReturn:
    """Run the command line and leave with its exit code. A closed pipe and Ctrl-C end it without a word."""
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
        status = 130
    except BrokenPipeError:
        # What is still buffered has nowhere to go: without this, the interpreter complains about it on its way out.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 141
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)
