"""Where runs start, and which of them have ranks that have to do with one another."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from dpcheck.check import FRAMEWORKS
from dpcheck.execution import TrainingRun, entry
from dpcheck.program.link import Program
from dpcheck.source.files import Selection
from tests.execution.programs import OPTION, SHOW, UNKNOWN, SharedStubs, execute, shown, write

PROCESSES = """
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import unread_package as u

def train(rank, model):
    torch.manual_seed(1 + rank)
    SETUP
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in torch.utils.data.DataLoader(torch.randn(8, 3)):
        model(x).sum().backward()
        REDUCE
        optimizer.step()

if __name__ == "__main__":
    model = torch.nn.Linear(3, 3)
    model.share_memory()
    for rank in range(4):
        process = mp.Process(target=train, args=(rank, model))
        process.start()
"""


@pytest.mark.parametrize(
    ("setup", "reduce", "parallel"),
    [
        ("pass", "pass", False),
        ("u.setup(rank)", "u.log(rank)", False),
        ("dist.init_process_group('gloo', rank=rank, world_size=4)", "pass", True),
        ("u.setup(rank)", "dist.all_reduce(next(model.parameters()).grad)", True),
        ("model = torch.nn.parallel.DistributedDataParallel(model)", "pass", True),
    ],
)
def test_processes_that_never_communicate_are_no_ranks(setup: str, reduce: str, parallel: bool, tmp_path: Path) -> None:
    text = PROCESSES.replace("SETUP", setup).replace("REDUCE", reduce)
    run = execute(tmp_path, textwrap.dedent(text))
    assert len(run.of_kind("backward")) == 1
    assert run.is_data_parallel == parallel


# ---------------------------------------------------------------- the entries of a project

TRAIN = """
import sys
import torch
from torch.nn.parallel import DistributedDataParallel
from shows import show

def main(n=1):
    show(n)
    model = DistributedDataParallel(torch.nn.Linear(1, 1))
    model(torch.randn(3, 1)).sum().backward()
    sys.exit()

def helper():
    main(3)
"""
NAMED = """
[project.scripts]
app = "app.cli:main"
"""


def runs(root: Path, files: dict[str, str]) -> list[TrainingRun]:
    """The runs of a package `app` that trains in `app/train.py`."""
    write(root, {"shows.py": SHOW, "app/__init__.py": "", "app/train.py": TRAIN, **files})
    paths = sorted(path for path in root.rglob("*.py") if path.name != "shows.py")
    program = Program(Selection(tuple(paths), roots=(root,)), cache=SharedStubs(), stub_folder=FRAMEWORKS)
    return list(entry.execute(program, program.entries))


def test_a_function_that_an_installed_script_calls(tmp_path: Path) -> None:
    cli = """
        from shows import show
        if __name__ == "__main__":
            show("not as a script")
        def main():
            import sys
            import torch.distributed as dist
            from app.train import main
            show(dist.is_initialized(), sys.argv[1])
            main(2)
            show("not reached")
        """
    (run,) = runs(tmp_path, {"pyproject.toml": NAMED, "app/cli.py": cli})
    assert shown(run) == [(False, OPTION), 2]
    assert run.span(run.entry).path.endswith("cli.py")
    assert run.span(run.entry).line == 5


@pytest.mark.parametrize("decorator", ["@click.command()\n@click.option('--n', default=5)", "@u.decorated"])
def test_one_that_is_decorated(decorator: str, tmp_path: Path) -> None:
    cli = f"import click\nimport unread_package as u\nfrom app.train import main as train\n{decorator}\ndef main(n):\n"
    (run,) = runs(tmp_path, {"pyproject.toml": NAMED, "app/cli.py": cli + "    train(n)\n"})
    assert shown(run) == [OPTION if "click" in decorator else UNKNOWN]


def test_one_that_is_imported_or_a_method(tmp_path: Path) -> None:
    named = '[project.scripts]\na = "app.cli:start"\nb = "app.cli:Tool.run"\nc = "app.cli:gone"\n'
    cli = """
        from app.train import main as start
        class Tool:
            @classmethod
            def run(cls):
                start(7)
        """
    found = runs(tmp_path, {"pyproject.toml": named, "app/cli.py": cli})
    assert [shown(run) for run in found] == [[1], [7]]
    assert found[0].span(found[0].entry).path.endswith("train.py")


@pytest.mark.parametrize("start", ["main()", "main(4)"])
def test_one_that_a_script_has_called_is_not_called_again(start: str, tmp_path: Path) -> None:
    script = f"from app.train import main\nif __name__ == '__main__':\n    {start}\n"
    named = '[project.scripts]\napp = "app.train:main"\nother = "app.train:main"\n'
    (run,) = runs(tmp_path, {"pyproject.toml": named, "run.py": script})
    assert run.entry.path.endswith("run.py")


def test_a_function_that_only_an_installed_script_reaches_runs_once(tmp_path: Path) -> None:
    (run,) = runs(tmp_path, {"pyproject.toml": '[project.scripts]\napp = "app.train:helper"\n'})
    assert shown(run) == [3]


@pytest.mark.parametrize("start", ["main()", "raise SystemExit(main())", "import sys\nsys.exit(main())"])
def test_a_package_that_is_run(start: str, tmp_path: Path) -> None:
    (run,) = runs(tmp_path, {"app/__main__.py": f"from .train import main\n{start}\n"})
    assert shown(run) == [1]
    assert run.entry.path.endswith("__main__.py")
