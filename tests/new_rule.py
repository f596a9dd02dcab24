"""Begin a new rule: `python -m tests.new_rule DP107 unsynchronized-batchnorm weights`.

Writes the rule's module, its page and its first case, which fails until the rule is written, and lists the module.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from dpcheck.rule import Group

ROOT = Path(__file__).parent.parent

MODULE = '''\
"""{code}: SUMMARY."""

from __future__ import annotations

from collections.abc import Iterator

from dpcheck.execution import TrainingRun
from dpcheck.findings.finding import Finding
from dpcheck.rule import Group, Rule, Severity

RULE = Rule(
    "{code}",
    "{name}",
    Group.{group},
    Severity.ERROR,
    "one line that says what is wrong",
)


def check(run: TrainingRun) -> Iterator[Finding]:
    return iter(())
'''

PAGE = """\
# {name} ({code})

## What it does

## Why it is wrong

## Example

```python
x = 1  # want: {code}
```

`dpcheck verify train.py` shows it.

## Use instead

```python
x = 1
```

## When it stays silent

## Known limits

## Fix safety

There is no automatic fix.

## References
"""

CASE = """\
# why: what is wrong, or why it is right although it looks wrong
# source: where the mechanism was seen
# verify: different
# diagnosis: {code}
x = 1  # want: {code}
"""


def create(root: Path, code: str, name: str, group: Group) -> list[Path]:
    """Write the files of the rule below `root` and list it. Raises FileExistsError rather than overwrite."""
    folder, stem = group.name.lower(), name.replace("-", "_")
    values = {"code": code, "name": name, "group": group.name}
    files = {
        root / "rules" / folder / f"{stem}.py": MODULE,
        root / "rules" / folder / f"{stem}.md": PAGE,
        root / "fixtures" / "cases" / folder / f"{stem}.py": CASE,
    }
    for path, template in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(template.format(**values))
    listing = root / "rules" / "__init__.py"
    listing.write_text(_listed(listing.read_text("utf-8"), group, stem), "utf-8")
    return [*files, listing]


def _listed(text: str, group: Group, stem: str) -> str:
    """The text of rules/__init__.py with the rule as the last one of its group."""
    later = "|".join(other.name.lower() for other in Group if other.value > group.value)
    match = re.search(rf'^    "\.(?:{later})\.' if later else r"^\)", text, re.MULTILINE)
    assert match is not None
    return f'{text[: match.start()]}    ".{group.name.lower()}.{stem}",\n{text[match.start() :]}'


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("code")
    parser.add_argument("name")
    parser.add_argument("group", choices=[group.name.lower() for group in Group])
    args = parser.parse_args()
    if not re.fullmatch(r"DP\d{3}", args.code) or not re.fullmatch(r"[a-z]+(-[a-z]+)*", args.name):
        parser.error("a rule is called like DP107 and unsynchronized-batchnorm")
    group = Group[args.group.upper()]
    if args.code[2] != str(group.value):
        parser.error(f"the codes of group {args.group} begin with DP{group.value}")
    try:
        written = create(ROOT, args.code, args.name, group)
    except FileExistsError as error:
        parser.error(f"there is such a rule already: {error.filename}")
    for path in written:
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
