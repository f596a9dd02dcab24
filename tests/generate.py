"""What is generated in docs/: `python -m tests.generate` writes it, a test holds it to be up to date."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

from dpcheck import registry
from dpcheck.report.json import Report
from dpcheck.rule import Group
from dpcheck.verify import result

ROOT = Path(__file__).parent.parent

GROUPS = {
    Group.WEIGHTS: "The ranks start from the same weights and keep them",
    Group.DATA: "The ranks see disjoint data",
    Group.OBJECTIVE: "The averaged gradient is the gradient of the same objective",
    Group.SYNC: "The gradients really are synchronized",
    Group.COLLECTIVES: "Every rank issues the same collectives",
    Group.COUNTING: "What is measured and scheduled counts every rank",
    Group.HYGIENE: "The check itself",
}


def rules() -> str:
    """docs/rules.md: the built-in rules, group by group."""
    rows = ["<!-- written by python -m tests.generate -->", "", "# Rules"]
    entries = [entry for entry in registry.load().entries if entry.page.is_relative_to(ROOT / "rules")]
    for group, title in GROUPS.items():
        members = [entry for entry in entries if entry.rule.group is group]
        if not members:
            continue
        rows += ["", f"## {title}", "", "| code | name | severity | what is wrong |", "|---|---|---|---|"]
        for entry in members:
            rule, page = entry.rule, entry.page.relative_to(ROOT).as_posix()
            severity = rule.severity.value + (", pedantic" if rule.pedantic else "")
            rows.append(f"| {rule.code} | [{rule.name}](../{page}) | {severity} | {rule.summary} |")
    return "\n".join(rows) + "\n"


def check_schema() -> str:
    """docs/report.schema.json: what `dpcheck check --output json` writes."""
    return _schema(Report)


def verify_schema() -> str:
    """docs/verify.schema.json: what `dpcheck verify --output json` writes."""
    return _schema(result.Report)


def _schema(document: type[msgspec.Struct]) -> str:
    described = {"$schema": "https://json-schema.org/draft/2020-12/schema", **msgspec.json.schema(document)}
    return json.dumps(described, indent=2) + "\n"


GENERATED = {
    ROOT / "docs" / "rules.md": rules,
    ROOT / "docs" / "report.schema.json": check_schema,
    ROOT / "docs" / "verify.schema.json": verify_schema,
}


def main() -> None:
    for path, make in GENERATED.items():
        path.write_text(make(), "utf-8")


if __name__ == "__main__":
    main()
