"""Which functions a project's installed scripts call."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path

import pytest

from dpcheck.check import FRAMEWORKS
from dpcheck.program.link import Program
from dpcheck.source.files import Selection

TRAINS = "def main():\n    loss.backward()\n"


def scripts(root: Path, files: dict[str, str], selected: list[str] | None = None) -> dict[str, tuple[str, ...]]:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), "utf-8")
    names = selected or [name for name in files if name.endswith(".py")]
    program = Program(Selection(tuple(root / name for name in names), roots=(root,)), stub_folder=FRAMEWORKS)
    return {unit.path.relative_to(root).as_posix(): names for unit, names in program.console_scripts.items()}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pyproject.toml", '[project.scripts]\ntrain = "pkg.cli:main"\nother = "pkg.gone:main"\n'),
        ("pyproject.toml", '[tool.poetry.scripts]\ntrain = "pkg.cli:main"\n'),
        ("pyproject.toml", '[tool.poetry.scripts]\ntrain = {reference = "pkg.cli:main", type = "console"}\n'),
        ("setup.cfg", "[options.entry_points]\nconsole_scripts =\n    train = pkg.cli:main [extra]\n    a = b\n"),
        (
            "setup.cfg",
            "[a]\nb\n  c\n[options.entry_points]\n# d\nconsole_scripts:\n ; e\n\n    train=pkg.cli:main\nf = g",
        ),
        ("setup.py", "setup(entry_points={'console_scripts': ['train = pkg.cli:main', f'a={b}']})"),
        ("setup.py", "setup(entry_points={'console_scripts': 'train=pkg.cli:main'})"),
        ("setup.py", "scripts = ['train=pkg.cli:main']\nsetup(entry_points=dict(**{'console_scripts': scripts}))"),
        ("setup.py", "def run():\n    setup(entry_points='''\n    [console_scripts]\n    train=pkg.cli:main\n    ''')"),
    ],
)
def test_where_scripts_are_named(name: str, text: str, tmp_path: Path) -> None:
    assert scripts(tmp_path, {"pkg/__init__.py": "", "pkg/cli.py": TRAINS, name: text}) == {"pkg/cli.py": ("main",)}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pyproject.toml", "[project.scripts\ntrain = 'pkg.cli:main'"),
        ("pyproject.toml", "[project]\nscripts = 3\n[tool.poetry]\nscripts = ['pkg.cli:main']"),
        ("pyproject.toml", "[project.scripts]\na = 3\nb = 'pkg.cli'\nc = {type = 'console'}\nd = ':main'\ne = '-'"),
        ("setup.cfg", "console_scripts =\n  train = pkg.cli:main"),
        ("setup.cfg", "[options.entry_points]\nother =\n  train = pkg.cli:main\n# console_scripts"),
        ("setup.py", "setup(entry_points={'console_scripts': ["),
        ("setup.py", "scripts = scripts\nsetup(entry_points={'console_scripts': scripts, 'console_scripts': names()})"),
        ("pyproject.toml", "[project.scripts]\nx = " + "[" * 9000),
        ("pyproject.toml", "[project.scripts]\nx = " + "[\n" * 20_000),
        ("pyproject.toml", "[project.scripts]\nx = 'pkg.cli:main'\ny = " + "1" * 5000),
        ("pyproject.toml", "[project.scripts]\nx = 'pkg.cli:main'\n" + "a." * 500_000 + "a = 1\n"),
        ("setup.cfg", "[options.entry_points]\n  a\nconsole_scripts" + " " * 200_000 + "b = pkg.cli:main\n"),
        ("setup.cfg", "[options.entry_points\nconsole_scripts =\n  train = pkg.cli:main"),
        ("setup.cfg", "[options.entry_points]\nconsole_scripts\n[other]\n  train = pkg.cli:main"),
        ("setup.cfg", "[options.entry_points]\nconsole_scripts =\n  a\nother =\n  train = pkg.cli:main"),
        ("setup.py", "setup(entry_points='[[console_scripts]]\\ntrain=pkg.cli:main')"),
        ("setup.py", "setup(entry_points='train=pkg.cli:main\\n[console_scripts]')"),
    ],
)
def test_what_is_not_well_formed_names_none(name: str, text: str, tmp_path: Path) -> None:
    assert scripts(tmp_path, {"pkg/__init__.py": "", "pkg/cli.py": TRAINS, name: text}) == {}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")
@pytest.mark.parametrize("name", ["pyproject.toml", "setup.cfg", "setup.py"])
def test_a_pipe_of_that_name(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / name)
    assert scripts(tmp_path, {"pkg/__init__.py": "", "pkg/cli.py": TRAINS}) == {}


def test_the_project_above_the_selected_files(tmp_path: Path) -> None:
    files = {
        "pyproject.toml": '[project.scripts]\na = "app.train:main"\nb = "app.train:Tool.run"\nc = "app.other:main"\n',
        "src/app/__init__.py": "",
        "src/app/train.py": TRAINS,
        "src/app/other.py": TRAINS,
    }
    assert scripts(tmp_path, files, ["src/app/train.py"]) == {"src/app/train.py": ("main", "Tool.run")}


def test_scripts_that_lead_to_no_training(tmp_path: Path) -> None:
    files = {
        "pyproject.toml": '[project.scripts]\na = "app.near:main"\nb = "app.far:main"\n',
        "app/__init__.py": "",
        "app/near.py": "def main():\n    from app.train import main",
        "app/far.py": "import json",
        "app/train.py": TRAINS,
    }
    assert scripts(tmp_path, files) == {"app/near.py": ("main",)}
