"""`dpcheck describe`."""

from __future__ import annotations

import pathlib

import click

from dpcheck.cli import as_paths, complain, load_settings, say


@click.command("describe")
@click.argument("path", type=click.Path(readable=False), callback=as_paths)
@click.pass_context
def command(ctx: click.Context, path: pathlib.Path) -> None:
    """Print what dpcheck believes the training scripts at PATH do.

    Exits with 1 when a file cannot be read, and with 2 when PATH does not exist or dpcheck itself fails.
    """
    from dpcheck import check
    from dpcheck.findings.result import InternalError
    from dpcheck.report.style import shown
    from dpcheck.source.files import display

    selection, program = check.link([path], load_settings())
    errors: list[InternalError] = []
    unreadable = list(check.unreadable(program, errors))
    descriptions = ["\n".join(map(shown, lines)) for lines in check.descriptions(program, errors)]
    if descriptions:
        say("\n\n".join(descriptions) + "\n")
    elif selection.files:
        say("no data-parallel training run was found\n")
    for error in unreadable:
        click.echo(f"error: {shown(f'{display(error.path)}:{error.line}:{error.column}: {error.reason}')}", err=True)
    complete = complain(
        missing=map(str, selection.missing),
        irregular=map(str, selection.irregular),
        unlisted=map(display, selection.unlisted),
        errors=errors,
    )
    ctx.exit(2 if not complete else 1 if unreadable else 0)
