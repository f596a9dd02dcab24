"""What is installed is all of it."""

from __future__ import annotations

import sys
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parent.parent.parent
SETUPTOOLS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]


def packages(folder: Path, name: str) -> set[str]:
    found = (file.parent.relative_to(folder).parts for file in folder.rglob("__init__.py"))
    return {".".join((name, *parts)) for parts in found if parts[:1] != ("frameworks",)}


def test_every_package_is_listed() -> None:
    expected = packages(ROOT / "dpcheck", "dpcheck") | packages(ROOT / "rules", "dpcheck_rules")
    assert set(SETUPTOOLS["packages"]) == expected


def test_data_files_are_matched() -> None:
    for name, folder in (("dpcheck", ROOT / "dpcheck"), ("dpcheck_rules", ROOT / "rules")):
        matched = {file for pattern in SETUPTOOLS["package-data"][name] for file in folder.glob(pattern)}
        data = {file for file in folder.rglob("*") if file.is_file() and file.suffix not in (".py", ".pyc")}
        stubs = set((folder / "frameworks").rglob("*.py"))
        assert matched == data | stubs
