"""`dpcheck explain`."""

from __future__ import annotations

import sys

import click

from dpcheck.cli import Failure, say


@click.command("explain")
@click.argument("rule")
def command(rule: str) -> None:
    """Print the page of a RULE, given by code or name."""
    from dpcheck import registry

    try:
        installed = registry.load()
    except registry.RegistryError as error:
        raise Failure(str(error)) from error
    entry = installed.find(rule)
    if entry is None:
        raise Failure(installed.unknown(rule))
    if not entry.page.is_file():
        raise Failure(f"{entry.rule.name} ({entry.rule.code}) has no page")
    page = entry.page.read_text("utf-8")
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.markdown import Markdown

        console = Console()
        console.print(Markdown(page), width=min(console.width, 100))
    else:
        say(page)
