"""`dpcheck rules`."""

from __future__ import annotations

import click

from dpcheck.cli import Failure, say


@click.command("rules")
@click.option("--output", type=click.Choice(["table", "json"]), default="table", help="How to print them.")
def command(output: str) -> None:
    """List the rules that are installed."""
    from dpcheck import registry

    try:
        installed = [entry.rule for entry in registry.load().entries]
    except registry.RegistryError as error:
        raise Failure(str(error)) from error
    if output == "json":
        import msgspec

        rows = [
            {
                "code": rule.code,
                "name": rule.name,
                "group": rule.group.name.lower(),
                "severity": rule.severity.value,
                "pedantic": rule.pedantic,
                "summary": rule.summary,
            }
            for rule in installed
        ]
        say(msgspec.json.format(msgspec.json.encode(rows), indent=2).decode() + "\n")
        return
    widest = max(len(rule.name) for rule in installed)
    lines = []
    for rule in installed:
        severity = rule.severity.value + (", pedantic" if rule.pedantic else "")
        lines.append(f"{rule.code}  {rule.name:{widest}}  {severity:14}  {rule.summary}\n")
    say("".join(lines))
