"""What the stubs of Python's own and of smaller libraries say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dpcheck.check import FRAMEWORKS
from dpcheck.execution.entry import Execution
from dpcheck.execution.values import Instance
from dpcheck.program.link import Program
from dpcheck.source.files import Selection
from tests.execution.programs import OPTION, SHOW, shown
from tests.execution.scripts import GROUP, TORCH, WRAPPED, run


def test_numpy_draws_from_the_state_in_force(tmp_path: Path) -> None:
    found = run(
        tmp_path,
        f"""{WRAPPED}
import numpy as np
from sklearn.model_selection import train_test_split
rank = dist.get_rank()
np.random.randn(4)
for seed in (1, rank, None):
    np.random.seed(seed)
order = np.random.permutation(10)
a, b = train_test_split(order, random_state=3)
c, d = train_test_split(order)
generators = [np.random.default_rng(1), np.random.default_rng(), np.random.RandomState(rank)]
loaders = [DataLoader(g.normal(size=4)) for g in generators]
""",
        before=TORCH,
    )
    assert [str(event.state.place) for event in found.of_kind("seed")] == ["Replicate", "Shard", "Shard"]
    assert [str(event.dataset.facts.place) for event in found.of_kind("loader")] == ["Replicate", "Shard", "Shard"]
    splits = found.of_kind("split")
    assert [isinstance(event.generator, Instance) for event in splits] == [True, False]
    assert all(event.library.value == "numpy" for event in splits)


def test_containers_paths_and_numbers(tmp_path: Path) -> None:
    found = run(
        tmp_path,
        GROUP
        + SHOW
        + """
import enum, glob, json, math, sys
import os.path as osp
from collections import OrderedDict, defaultdict, namedtuple
from pathlib import Path
from typing import NamedTuple, cast

class Kind(enum.Enum):
    A = "a"

class Pair(NamedTuple):
    x: int
    y: int = 2

Point = namedtuple("Point", "x y")
table = defaultdict(list)
table["k"].append(1)
x, y = Pair(1)
show(x, y, Point(3, y=4).y, [*Point(5, 6)], table["k"], OrderedDict(a=1)["a"])
show(Kind.A.value, Kind("a") == Kind.A, cast(int, 7), math.ceil(8), osp.join("a", "b"))
show(len(sys.argv) > 1)
listings = [glob.glob("*"), list(Path("x").iterdir()), sorted(Path("x").glob("*"))]
""",
    )
    assert shown(found) == [(1, 2, 4, [5, 6], [1], 1), ("a", True, 7, 8, "a/b"), OPTION]
    assert not found.unknowns


BODY = """
import torch
from tests_show import show

def train(rate, epochs=3, name="x"):
    show(rate, epochs, name)
"""


FIRE = """
import fire
from body import train
fire.Fire(train)
"""
CLICK = """
import click
from body import train

@click.command()
@click.option("--rate", "-r", default=0.1)
@click.option("--epochs", default=3)
def main(rate, epochs):
    train(rate, epochs)

main()
"""
TYPER = """
import typer
from body import train
app = typer.Typer()

@app.command()
def main(rate: float = typer.Option(0.1)):
    train(rate)

app()
"""
HYDRA = """
import hydra
from body import train

@hydra.main(config_path="conf", config_name="config")
def main(cfg):
    train(cfg.optimizer.rate, cfg["epochs"])

main()
"""
ABSL = """
from absl import app, flags
from body import train
flags.DEFINE_float("rate", 0.1, "the rate")

def main(argv):
    train(flags.FLAGS.rate)

app.run(main)
"""
TYRO = """
import tyro
from body import train
from dataclasses import dataclass

@dataclass
class Settings:
    rate: float = 0.1

train(tyro.cli(Settings).rate)
"""
YACS = """
from body import train
from yacs.config import CfgNode
cfg = CfgNode()
cfg.rate, cfg.epochs = 0.1, 5
rate = cfg.rate
cfg.merge_from_file("config.yaml")
train(rate, cfg.epochs)
"""
OMEGACONF = """
from body import train
from omegaconf import OmegaConf
train(OmegaConf.create({"rate": 0.5}).rate)
"""


@pytest.mark.parametrize(
    ("text", "values"),
    [
        (FIRE, (OPTION, OPTION, OPTION)),
        (CLICK, (OPTION, OPTION, "x")),
        (TYPER, (OPTION, 3, "x")),
        (HYDRA, (OPTION, OPTION, "x")),
        (ABSL, (OPTION, 3, "x")),
        (TYRO, (OPTION, 3, "x")),
        (YACS, (0.1, OPTION, "x")),
        (OMEGACONF, (0.5, 3, "x")),
    ],
    ids=["fire", "click", "typer", "hydra", "absl", "tyro", "yacs", "omegaconf"],
)
def test_command_lines_give_options(tmp_path: Path, text: str, values: tuple[Any, ...]) -> None:
    files = {"body.py": BODY, "tests_show.py": SHOW}
    found = run(tmp_path, text, before=GROUP, files=files)
    assert shown(found) == [values]


def test_a_package_of_the_project_comes_before_a_library_of_a_common_name(tmp_path: Path) -> None:
    files = {"datasets/__init__.py": "def build():\n    return 5\n", "tools/show.py": SHOW, "setup.py": ""}
    text = f"{GROUP}from datasets import build\nfrom show import show\nshow(build())\n"
    entry = tmp_path / "tools" / "train.py"
    for name, content in {**files, "tools/train.py": text}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content, "utf-8")
    program = Program(Selection((entry,), roots=(tmp_path,)), stub_folder=FRAMEWORKS)
    (found,) = Execution(program).script(program.unit(entry))
    assert shown(found) == [5]
