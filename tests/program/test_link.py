from __future__ import annotations

from pathlib import Path

import libcst as cst
import pytest

from dpcheck.findings.finding import Span
from dpcheck.program.cache import Cache
from dpcheck.program.link import Program, Unit, imported
from dpcheck.program.lower import lower
from dpcheck.source.files import discover


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


@pytest.fixture
def stubs(tmp_path: Path) -> Path:
    write(
        tmp_path / "stubs",
        {
            "torch/__init__.py": "from torch import nn\nfrom . import optim\n",
            "torch/nn/__init__.py": "from ..optim import x\n",
            "torch/optim.py": "",
            "accelerate.py": "class Accelerator: ...\n",
            "deep/er/leaf.py": "",
        },
    )
    return tmp_path / "stubs"


class Project:
    def __init__(self, root: Path, stubs: Path, files: dict[str, str], *selected: str) -> None:
        write(root, files)
        self.root = root
        self.program = Program(discover([root / name for name in selected or (".",)]), stub_folder=stubs)

    def unit(self, name: str) -> Unit:
        return self.program.unit(self.root / name)

    def find(self, importer: str, dotted: str, level: int = 0) -> str | None:
        found = self.program.find(self.unit(importer), dotted, level)
        return None if found is None else self.place(found)

    def place(self, unit: Unit) -> str:
        if unit.is_stub:
            return "stub:" + unit.path.relative_to(self.program.stub_folder).as_posix()
        return unit.path.relative_to(self.root).as_posix()


# ---------------------------------------------------------------- imports


def test_beside_the_script_and_below(tmp_path: Path, stubs: Path) -> None:
    project = Project(
        tmp_path / "p",
        stubs,
        {"train.py": "", "engine.py": "", "engine/other.py": "", "models/__init__.py": "", "models/net.py": ""},
    )
    assert project.find("train.py", "engine") == "engine.py"
    assert project.find("train.py", "models") == "models/__init__.py"
    assert project.find("train.py", "models.net") == "models/net.py"
    assert project.find("train.py", "models.nothing") is None
    assert project.find("train.py", "numpy") is None
    assert project.find("train.py", "engine.other") == "engine/other.py"  # lenient: Python takes engine.py


def test_a_package_wins_over_a_module(tmp_path: Path, stubs: Path) -> None:
    project = Project(tmp_path / "p", stubs, {"train.py": "", "a.py": "", "a/__init__.py": ""})
    assert project.find("train.py", "a") == "a/__init__.py"


def test_up_to_the_repository(tmp_path: Path, stubs: Path) -> None:
    project = Project(
        tmp_path / "p",
        stubs,
        {
            "outside.py": "",
            "repo/.git/config": "",
            "repo/lib/__init__.py": "",
            "repo/src/pkg/__init__.py": "",
            "repo/src/pkg/mod.py": "",
            "repo/tools/pyproject.toml": "",
            "repo/tools/helper.py": "",
            "repo/tools/scripts/train.py": "",
        },
        "repo/tools/scripts/train.py",
    )
    train = "repo/tools/scripts/train.py"
    assert project.find(train, "helper") == "repo/tools/helper.py"
    assert project.find(train, "lib") == "repo/lib/__init__.py"
    assert project.find(train, "pkg.mod") == "repo/src/pkg/mod.py"
    assert project.find("repo/src/pkg/mod.py", "pkg") == "repo/src/pkg/__init__.py"
    assert project.find(train, "outside") is None


def test_a_module_beside_the_script_sets_up_the_search(tmp_path: Path, stubs: Path) -> None:
    files = {
        "repo/setup.py": "",
        "repo/lib/core/__init__.py": "",
        "repo/lib/core/loop.py": "",
        "repo/tools/_paths.py": "import sys\ndef add(path): sys.path.insert(0, path)\nadd(__file__ + '/../../lib')\n",
        "repo/tools/train.py": "import _paths\nfrom torch.distributed import init_process_group\n",
        "repo/tools/plain.py": "import _paths\n",
        "repo/tools/other.py": "from core.loop import run\n",
    }
    project = Project(tmp_path, stubs, files, "repo")
    assert project.find("repo/tools/train.py", "core.loop") == "repo/lib/core/loop.py"
    assert project.find("repo/tools/plain.py", "core.loop") == "repo/lib/core/loop.py"
    assert project.find("repo/tools/other.py", "core.loop") is None


def test_without_a_repository_the_selected_paths_bound_the_search(tmp_path: Path, stubs: Path) -> None:
    files = {"up.py": "", "p/helper.py": "", "p/a/train.py": ""}
    project = Project(tmp_path / "q", stubs, files, "p")
    assert project.find("p/a/train.py", "helper") == "p/helper.py"
    assert project.find("p/a/train.py", "up") is None
    project = Project(tmp_path / "q", stubs, files, "p/a/train.py")
    assert project.find("p/a/train.py", "helper") is None
    write(tmp_path / "q", {"p/setup.py": ""})
    project = Project(tmp_path / "q", stubs, files, "p/a/train.py")
    assert project.find("p/a/train.py", "helper") == "p/helper.py"
    assert [project.place(unit) for unit in project.program.units] == ["p/a/train.py"]


def test_relative(tmp_path: Path, stubs: Path) -> None:
    project = Project(
        tmp_path / "p",
        stubs,
        {"pkg/__init__.py": "", "pkg/a.py": "", "pkg/sub/__init__.py": "", "pkg/sub/b.py": "", "pkg/loose/c.py": ""},
    )
    assert project.find("pkg/a.py", "", 1) == "pkg/__init__.py"
    assert project.find("pkg/a.py", "sub.b", 1) == "pkg/sub/b.py"
    assert project.find("pkg/__init__.py", "a", 1) == "pkg/a.py"
    assert project.find("pkg/sub/b.py", "a", 2) == "pkg/a.py"
    assert project.find("pkg/sub/b.py", "", 2) == "pkg/__init__.py"
    assert project.find("pkg/sub/__init__.py", "loose.c", 2) == "pkg/loose/c.py"
    assert project.find("pkg/loose/c.py", "a", 2) == "pkg/a.py"
    assert project.find("pkg/loose/c.py", "c", 1) == "pkg/loose/c.py"
    assert project.find("pkg/a.py", "nothing", 1) is None
    assert project.find("pkg/a.py", "a", 40) is None


def test_namespace_packages(tmp_path: Path, stubs: Path) -> None:
    project = Project(
        tmp_path / "p",
        stubs,
        {
            "train.py": "",
            "engine/head.py": "",
            "a/b/c.py": "",
            "data/images/x.png": "",
            "code/x.py": "",
            "configs/default.yaml": "",
        },
    )
    engine = project.program.find(project.unit("train.py"), "engine")
    assert engine is not None
    assert (engine.is_package, engine.name, engine.module, engine.error) == (True, "engine", engine.module, None)
    assert engine.module is not None
    assert engine.module.body == ()
    head = project.program.child(engine, "head")
    assert head is not None
    assert (project.place(head), head.name) == ("engine/head.py", "engine.head")
    assert project.program.child(engine, "tail") is None
    assert project.program.child(head, "x") is None
    assert project.find("train.py", "a.b.c") == "a/b/c.py"
    assert project.find("train.py", "a") == "a"
    assert project.find("train.py", "data") is None
    assert project.find("train.py", "code") is None
    assert project.find("train.py", "configs") is None


def test_the_real_thing_wins_over_a_namespace(tmp_path: Path, stubs: Path) -> None:
    project = Project(
        tmp_path / "p", stubs, {"scripts/train.py": "", "scripts/lib/x.py": "", "lib/__init__.py": "", "lib/x.py": ""}
    )
    assert project.find("scripts/train.py", "lib") == "lib/__init__.py"
    assert project.find("scripts/train.py", "lib.x") == "scripts/lib/x.py"


def test_stubs(tmp_path: Path, stubs: Path) -> None:
    project = Project(
        tmp_path / "p",
        stubs,
        {
            "train.py": "",
            "torch/notes.txt": "",
            "torch/extra.py": "",
            "accelerate.py": "",
            "sub/train.py": "",
            "sub/torch/__init__.py": "",
            "pkg/__init__.py": "",
            "pkg/accelerate.py": "",
            "pkg/train.py": "",
        },
    )
    assert project.find("train.py", "torch") == "stub:torch/__init__.py"
    assert project.find("train.py", "torch.nn") == "stub:torch/nn/__init__.py"
    assert project.find("train.py", "torch.extra") == "torch/extra.py"  # which no stub speaks of
    assert project.find("train.py", "accelerate") == "accelerate.py"
    assert project.find("sub/train.py", "accelerate") == "stub:accelerate.py"
    assert project.find("sub/train.py", "torch") == "sub/torch/__init__.py"
    assert project.find("pkg/train.py", "accelerate") == "stub:accelerate.py"
    assert project.find("pkg/train.py", "accelerate", 1) == "pkg/accelerate.py"
    assert project.find("accelerate.py", "accelerate") == "stub:accelerate.py"
    torch = project.program.find(project.unit("train.py"), "torch")
    assert torch is not None
    assert (torch.is_stub, torch.is_package, torch.name) == (True, True, "torch")
    leaf = project.program.find(project.unit("train.py"), "deep.er.leaf")
    assert leaf is not None
    assert (leaf.name, leaf.is_stub) == ("deep.er.leaf", True)


def test_stubs_see_stubs_alone(tmp_path: Path, stubs: Path) -> None:
    project = Project(tmp_path / "p", stubs, {"train.py": "", "numpy.py": ""})
    program = project.program
    torch = program.find(project.unit("train.py"), "torch")
    nn = program.find(project.unit("train.py"), "torch.nn")
    assert torch is not None
    assert nn is not None
    assert program.find(torch, "numpy") is None
    assert program.find(torch, "torch.nn") is nn
    assert program.find(torch, "nn", 1) is nn
    assert program.find(nn, "", 2) is torch
    assert program.find(nn, "x", 9) is None
    assert program.child(torch, "nn") is nn


def test_sys_path(tmp_path: Path, stubs: Path) -> None:
    project = Project(
        tmp_path / "p",
        stubs,
        {
            ".git/x": "",
            "vendor/lib/__init__.py": "",
            "scripts/train.py": "import os, sys\n"
            "sys.path.append(os.path.join(os.path.dirname(__file__), '..', 'vendor'))\nimport lib\n",
            "scripts/other.py": "import lib\n",
        },
    )
    assert project.find("scripts/train.py", "lib") == "vendor/lib/__init__.py"
    assert project.find("scripts/other.py", "lib") is None


def test_a_package_has_its_own_names(tmp_path: Path, stubs: Path) -> None:
    project = Project(
        tmp_path / "p",
        stubs,
        {
            "pkg/__init__.py": "",
            "pkg/logging.py": "",
            "pkg/util.py": "",
            "pkg/train.py": "",
            "util.py": "",
            "pkg/only.py": "",
            "logging.py": "",
            "run.py": "",
        },
    )
    assert project.find("pkg/train.py", "util") == "util.py"
    assert project.find("pkg/train.py", "only") == "pkg/only.py"  # when it is run as a script
    assert project.find("pkg/logging.py", "logging") == "logging.py"
    assert project.find("logging.py", "logging") is None
    assert project.find("run.py", "logging") == "logging.py"
    assert project.find("pkg/__init__.py", "pkg") == "pkg/__init__.py"
    (tmp_path / "p" / "logging.py").unlink()
    project = Project(tmp_path / "p", stubs, {})
    assert project.find("pkg/train.py", "logging") is None


def test_build_output_is_no_module(tmp_path: Path, stubs: Path) -> None:
    project = Project(
        tmp_path / "p", stubs, {"train.py": "", "build/lib/x.py": "", "dist/__init__.py": "", "venv/x.py": ""}
    )
    assert project.find("train.py", "build") is None
    assert project.find("train.py", "build.lib.x") is None
    assert project.find("train.py", "dist") == "dist/__init__.py"
    assert project.find("train.py", "venv") is None


# ---------------------------------------------------------------- units


def test_units(tmp_path: Path, stubs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"b.py": "x = 1\n", "pkg/__init__.py": "", "pkg/a.py": "", "src/lib/c.py": "", "script": "y\n"})
    monkeypatch.chdir(tmp_path)
    program = Program(discover([Path("b.py"), Path("pkg"), Path("src"), Path("script")]), stub_folder=stubs)
    assert [unit.display for unit in program.units] == ["b.py", "pkg/__init__.py", "pkg/a.py", "script", "src/lib/c.py"]
    assert [unit.name for unit in program.units] == ["b", "pkg", "pkg.a", "script", "lib.c"]
    assert [unit.is_package for unit in program.units] == [False, True, False, False, False]
    assert not any(unit.is_stub for unit in program.units)
    assert program.unit(tmp_path / "pkg" / ".." / "b.py") is program.units[0]
    assert program.find(program.units[0], "pkg.a") is program.units[2]
    module = program.units[0].module
    assert module is not None
    assert module is program.units[0].module
    assert program.span("b.py", 1) == program.span(tmp_path / "b.py", 1) == Span("b.py", 1, 1, 1, 6)
    assert program.span("b.py", 0) == Span("b.py", 1, 1, 1, 1)


def test_unreadable(tmp_path: Path, stubs: Path) -> None:
    project = Project(tmp_path / "p", stubs, {"a.py": "x = (\n", "b.py": "x\n", "c.py": "import backward\n"})
    (tmp_path / "p" / "d.py").write_bytes(b"\xff")
    project = Project(tmp_path / "p", stubs, {})
    a, b, _, d = project.program.units
    assert b.error is None
    assert a.error is not None
    assert (a.error.path, a.error.reason) == (a.path, "is not valid Python: '(' was never closed")
    assert (a.error.line, a.error.column) == (1, 5)
    assert a.module is None
    assert d.module is None
    assert [error.path.name for error in project.program.unreadable] == ["a.py", "d.py"]
    assert project.program.span(a.path, 0) == Span(a.display, 1, 1, 1, 1)
    assert project.program.span(a.path / "gone", 0) == Span(f"{a.display}/gone", 1, 1, 1, 1)


def test_a_file_that_vanishes(tmp_path: Path, stubs: Path) -> None:
    project = Project(tmp_path / "p", stubs, {"a.py": "x\n"})
    (tmp_path / "p" / "a.py").unlink()
    (unit,) = project.program.units
    assert unit.module is None
    assert unit.error is not None
    assert unit.error.reason.startswith("cannot be read")
    assert unit.ignores == []


def test_ignores(tmp_path: Path, stubs: Path) -> None:
    project = Project(tmp_path / "p", stubs, {"a.py": "x = 1  # dpcheck: ignore[a]\n", "b.py": "x\n"})
    assert [[ignore.names for ignore in unit.ignores] for unit in project.program.units] == [[("a",)], []]


def test_entries(tmp_path: Path, stubs: Path) -> None:
    main = "if __name__ == '__main__': run()\n"
    project = Project(
        tmp_path / "p",
        stubs,
        {
            "loop.py": "def run():\n    loss.backward()\n",
            "direct.py": "from loop import run\n" + main,
            "through.py": "from cli import run\n" + main,
            "far.py": "from further import run\n" + main,
            "further.py": "from cli import run\n",
            "cli.py": "import torch\nfrom loop import run\n",
            "plain.py": "import torch\n" + main,
            "pkg/__init__.py": "",
            "pkg/loop.py": "optimizer.zero_grad()\n",
            "pkg/__main__.py": "from .loop import run\nrun()  # __main__\n",
            "broken.py": "loss.backward(\n",
        },
    )
    assert [project.place(unit) for unit in project.program.entries] == [
        "direct.py",
        "loop.py",
        "pkg/__main__.py",
        "pkg/loop.py",
        "through.py",
    ]


def test_lowering_waits_until_it_is_asked_for(tmp_path: Path, stubs: Path) -> None:
    cache = Cache()
    write(tmp_path / "p", {"a.py": "import b\nloss.backward()\n", "b.py": "x = 1\n"})
    program = Program(discover([tmp_path / "p"]), cache=cache, stub_folder=stubs)
    assert [unit.path.name for unit in program.entries] == ["a.py"]
    a, b = program.units
    entry = cache.get(b.path)
    assert entry is not None
    assert entry.module is None
    assert b.module is not None
    entry = cache.get(b.path)
    assert entry is not None
    assert entry.module
    assert a.module is not None


@pytest.mark.parametrize("jobs", [1, 2])
def test_many_files_are_prepared(tmp_path: Path, stubs: Path, jobs: int) -> None:
    """What the selected files import is read ahead as well, also outside the selection."""
    files = {f"a/train{number}.py": f"import helper{number}\nloss.backward()\n" for number in range(60)}
    files |= {f"helper{number}.py": "from pkg import deep\n" for number in range(60)}
    files |= {"pkg/__init__.py": "", "pkg/deep.py": "", ".git/x": "", "other.py": ""}
    write(tmp_path / "p", files)
    cache = Cache()
    program = Program(discover([tmp_path / "p" / "a"]), cache=cache, stub_folder=stubs)
    program.prepare(jobs)
    for name in ("a/train7.py", "helper7.py"):
        entry = cache.get(tmp_path / "p" / name)
        assert entry is not None
        assert entry.module
    assert cache.get(tmp_path / "p" / "other.py") is None
    assert len(program.entries) == 60


def test_imported_finds_every_import() -> None:
    text = """
import a, b.c as d
from e import f as g, h
from . import i
from ..j import *
def k():
    import l
    class m:
        from n import o
if p:
    import q
else:
    import r
for s in t:
    with u:
        import v
while w:
    try: import x
    except y: import z
    else: import aa
    finally: import bb
match cc:
    case dd: import ee
"""
    expected = "a b.c e e.f e.h .i . ..j l n n.o q r v x z aa bb ee"
    found = ["." * level + dotted for level, dotted in imported(lower(cst.parse_module(text)))]
    assert sorted(found) == sorted(expected.split())
