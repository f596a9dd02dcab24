"""Where a report goes: what `--output` takes, and how it is written."""

from __future__ import annotations

import os
import pathlib
import re
import sys
from collections.abc import Callable, Collection, Iterable, Sequence

import click

from dpcheck.cli import say

_STREAMS = {"stdout": "1", "stderr": "2"}
_OPENED = re.compile(r"(?:/dev|/proc/self)/fd/(\d{1,9})|/dev/(stdout|stderr)")

Output = tuple[str, str | None]
"""A format, and the file to write it to; None for standard output."""


def outputs_among(
    formats: Collection[str],
) -> Callable[[click.Context, click.Parameter, Sequence[str]], list[Output]]:
    """The callback of `--output`, which takes `FORMAT` or `FORMAT=FILE`."""

    def outputs(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> list[Output]:
        chosen: list[Output] = []
        for value in values or ("full",):
            name, given, path = value.partition("=")
            if name not in formats:
                raise click.BadParameter(f"{name!r} is not one of {', '.join(formats)}")
            if given and not path:
                raise click.BadParameter(f"{value!r} names no file")
            chosen.append((name, path or None))
        if sum(path is None for _, path in chosen) > 1:
            raise click.BadParameter("only one can go to standard output: give the others a file, as in json=out.json")
        return chosen

    return outputs


def write_all(outputs: Iterable[Output], render: Callable[[str, bool], str], *, color: bool) -> bool:
    """Write every output; `render(format, color)` makes its text. False where one could not be written.

    Standard output comes last: its reader may go away before the end, and that must not cost the files.
    """
    written = [
        _write(name, path, render, color=color) for name, path in sorted(outputs, key=lambda each: each[1] is None)
    ]
    return all(written)


def wants_color() -> bool:
    """The conventions of no-color.org and force-color.org, and otherwise whether this is a terminal."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def _write(name: str, path: str | None, render: Callable[[str, bool], str], *, color: bool) -> bool:
    """Write the report, to standard output when `path` is None. False, and a word about it, when that fails."""
    if path is None:
        say(render(name, color), color=color)
        return True
    try:
        _replace(path, render(name, False))
    except OSError as error:
        from dpcheck.report.style import shown

        click.echo(f"error: cannot write {shown(path)}: {error.strerror}", err=True)
        return False
    return True


def _replace(given: str, text: str) -> None:
    """Write the file so that a reader sees the old text or the new one, never a part. A device or pipe stays one."""
    opened = _OPENED.fullmatch(given)
    if opened is not None:
        # What `/dev/stdout` leads to may be a file that others write to as well.
        descriptor = int(opened[1] or _STREAMS[opened[2]])
        with os.fdopen(os.dup(descriptor), "w", encoding="utf-8") as stream:
            stream.write(text)
        return
    path = pathlib.Path(os.path.realpath(given))
    if path.exists() and not path.is_file():
        path.write_text(text, "utf-8")
        return
    draft = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        draft.write_text(text, "utf-8")
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
