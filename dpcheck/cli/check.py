"""`dpcheck check`."""

from __future__ import annotations

import os
import pathlib
import re
import sys
from typing import TYPE_CHECKING

import click

from dpcheck.cli import Failure
from dpcheck.report import FORMATS
from dpcheck.rule import Confidence, Severity

if TYPE_CHECKING:
    from dpcheck.findings.result import Result


def _outputs(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> list[tuple[str, str | None]]:
    """`FORMAT` or `FORMAT=PATH`, as (format, path or None)."""
    outputs = []
    for value in values or ("full",):
        name, given, path = value.partition("=")
        if name not in FORMATS:
            raise click.BadParameter(f"{name!r} is not one of {', '.join(FORMATS)}")
        if given and not path:
            raise click.BadParameter(f"{value!r} names no file")
        outputs.append((name, path or None))
    if sum(path is None for _, path in outputs) > 1:
        raise click.BadParameter("only one can go to standard output: give the others a file, as in json=out.json")
    return outputs


def _selectors(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """Codes, names and prefixes, separated by commas or blanks."""
    return tuple(selector for value in values for selector in re.split(r"[\s,]+", value) if selector)


@click.command("check")
@click.argument("paths", nargs=-1, type=click.Path(path_type=pathlib.Path), metavar="[PATH]...")
@click.option(
    "--output",
    "outputs",
    multiple=True,
    callback=_outputs,
    metavar="FORMAT[=FILE]",
    help=f"Write the findings as {', '.join(FORMATS)}, to a file if one is given; repeatable.",
)
@click.option(
    "--select",
    multiple=True,
    callback=_selectors,
    metavar="RULE,...",
    help="Check for these rules only: codes, names, beginnings of codes (DP3) or ALL.",
)
@click.option(
    "--extend-select", multiple=True, callback=_selectors, metavar="RULE,...", help="Check for these rules as well."
)
@click.option("--ignore", multiple=True, callback=_selectors, metavar="RULE,...", help="Do not check for these rules.")
@click.option("--pedantic/--no-pedantic", default=None, help="Check for the pedantic rules too.")
@click.option(
    "--confidence",
    type=click.Choice([level.value for level in Confidence]),
    help="Hide findings that are less sure (default: medium).",
)
@click.option(
    "--fail-on",
    type=click.Choice([level.value for level in Severity]),
    help="Exit with 1 on findings of this severity or a higher one (default: warning).",
)
@click.option("--exit-zero", is_flag=True, help="Exit with 0 whatever is found.")
@click.option("--no-cache", is_flag=True, help="Neither read nor write the cache of parsed files.")
@click.pass_context
def command(
    ctx: click.Context,
    paths: tuple[pathlib.Path, ...],
    outputs: list[tuple[str, str | None]],
    select: tuple[str, ...],
    extend_select: tuple[str, ...],
    ignore: tuple[str, ...],
    pedantic: bool | None,
    confidence: str | None,
    fail_on: str | None,
    exit_zero: bool,
    no_cache: bool,
) -> None:
    """Check the training scripts at each PATH, a file or a folder (default: this folder).

    Exits with 0 when nothing is found, with 1 when something is or a file cannot be read, and with 2 when the command
    line or the configuration is wrong, a path does not exist, or dpcheck itself fails.
    """
    from dpcheck import check, config, registry

    try:
        settings = config.load(pathlib.Path.cwd()).overlaid(
            registry.Selectors(select or None, extend_select, ignore),
            pedantic=pedantic,
            confidence=confidence and Confidence(confidence),
            fail_on=fail_on and Severity(fail_on),
            cache=not no_cache,
        )
        result = check.check(paths or (pathlib.Path(),), settings, registry.load())
    except (config.ConfigError, registry.RegistryError) as error:
        raise Failure(str(error)) from error
    written = [_write(name, path, result) for name, path in outputs]
    complete = _complain(result)
    if not (all(written) and complete):
        ctx.exit(2)
    severities = list(Severity)
    gravest = min((severities.index(finding.rule.severity) for finding in result.findings), default=len(severities))
    ctx.exit(1 if gravest <= severities.index(settings.config.fail_on) and not exit_zero else 0)


def _write(name: str, path: str | None, result: Result) -> bool:
    """Write the report, to standard output when `path` is None. False, and a word about it, when that fails."""
    from dpcheck.report import render
    from dpcheck.report.sources import read_lines

    if path is None:
        color = _wants_color()
        click.echo(render(name, result, read_lines, color=color), nl=False, color=color)
        return True
    try:
        _replace(pathlib.Path(os.path.realpath(path)), render(name, result, read_lines))
    except OSError as error:
        click.echo(f"error: cannot write {path}: {error.strerror}", err=True)
        return False
    return True


def _replace(path: pathlib.Path, text: str) -> None:
    """Write the file so that a reader sees the old text or the new one, never a part. A device or pipe stays one."""
    if path.exists() and not path.is_file():
        path.write_text(text, "utf-8")
        return
    draft = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        draft.write_text(text, "utf-8")
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _wants_color() -> bool:
    """The conventions of no-color.org and force-color.org, and otherwise whether this is a terminal."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def _complain(result: Result) -> bool:
    """Say on standard error what kept the check from being whole. True when nothing did."""
    for path in result.missing:
        click.echo(f"error: no such file or folder: {path}", err=True)
    for path in result.unlisted:
        click.echo(f"error: cannot look into the folder {path}", err=True)
    for error in result.errors:
        click.echo(f"internal error while {error.doing} from {error.path}:\n{error.traceback}", err=True)
    if not (result.files or result.missing):
        click.echo("warning: no Python files found", err=True)
    return not (result.missing or result.unlisted or result.errors)
