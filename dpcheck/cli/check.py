"""`dpcheck check`."""

from __future__ import annotations

import pathlib
import re

import click

from dpcheck.cli import Failure, as_paths, complain, load_settings
from dpcheck.cli.output import Output, outputs_among, wants_color, write_all
from dpcheck.report import FORMATS
from dpcheck.rule import Confidence, Severity


def _selectors(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """Codes, names and prefixes, separated by commas or blanks."""
    return tuple(selector for value in values for selector in re.split(r"[\s,]+", value) if selector)


@click.command("check")
@click.argument("paths", nargs=-1, type=click.Path(readable=False), callback=as_paths, metavar="[PATH]...")
@click.option(
    "--output",
    "outputs",
    multiple=True,
    callback=outputs_among(FORMATS),
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
    outputs: list[Output],
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
    from dpcheck import check, registry
    from dpcheck.report import render
    from dpcheck.report.sources import read_lines

    settings = load_settings().overlaid(
        registry.Selectors(select or None, extend_select, ignore),
        pedantic=pedantic,
        confidence=confidence and Confidence(confidence),
        fail_on=fail_on and Severity(fail_on),
        cache=not no_cache,
    )
    try:
        result = check.check(paths or (pathlib.Path(),), settings, registry.load())
    except registry.RegistryError as error:
        raise Failure(str(error)) from error
    written = write_all(outputs, lambda name, color: render(name, result, read_lines, color=color), color=wants_color())
    complete = complain(
        missing=result.missing, irregular=result.irregular, unlisted=result.unlisted, errors=result.errors
    )
    if complete and not result.files:
        click.echo("warning: no Python files found", err=True)
    if not (written and complete):
        ctx.exit(2)
    severities = list(Severity)
    gravest = min((severities.index(finding.rule.severity) for finding in result.findings), default=len(severities))
    ctx.exit(1 if gravest <= severities.index(settings.config.fail_on) and not exit_zero else 0)
