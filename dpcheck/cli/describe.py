"""`dpcheck describe`."""

from __future__ import annotations

import pathlib

import click

from dpcheck.cli import Failure


@click.command("describe")
@click.argument("path", type=click.Path(path_type=pathlib.Path))
def command(path: pathlib.Path) -> None:
    """Print what dpcheck believes the training scripts at PATH do."""
    from dpcheck import check, config

    try:
        settings = config.load(pathlib.Path.cwd())
    except config.ConfigError as error:
        raise Failure(str(error)) from error
    selection, program = check.link([path], settings)
    if selection.missing:
        raise Failure(f"no such file or folder: {path}")
    from dpcheck.execution import describe, execute

    described = [describe(run) for run in execute(program, program.entries)]
    click.echo("\n\n".join(described) or "no data-parallel training run was found")
