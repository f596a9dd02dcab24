"""Which objects are told apart, and which are taken for one."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from dpcheck.execution import TrainingRun
from dpcheck.execution.values import options
from tests.execution.programs import execute

HEAD = """
import copy
import torch
import unread_package as u
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader

def optimizer(n):
    return torch.optim.SGD(nn.Linear(n, 1).parameters(), lr=0.1)

class Thing:
    def __init__(self, n=0):
        self.n = n

def make(n=0):
    return Thing(n)
"""


def run_of(folder: Path, text: str) -> TrainingRun:
    return execute(folder, HEAD + textwrap.dedent(text))


def handed(run: TrainingRun) -> list[int]:
    """How many objects each of the things may be that the program handed to loaders."""
    return [len(list(options(event.dataset))) for event in run.of_kind("loader")]


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        ("[Thing() for _ in (1, 2)]", 2),
        ("[nn.Linear(1, 1) for _ in range(3)]", 3),
        ("[optimizer(n) for n in range(2, 8, 2)]", 3),
        ("[[nn.Linear(1, 1) for _ in range(2)][k] for k in (0, 1)]", 2),
        ("[make() for _ in range(3)]", 1),
        ("list(map(make, (1, 2)))", 2),
        ("(make(), make())", 2),
        ("[copy.copy(thing) for thing in [make()] * 2]", 2),
        ("[nn.Linear(1, 1) for _ in range(100)]", 1),
        ("[make() for _ in u.names]", 1),
    ],
)
def test_objects_of_a_list(made: str, expected: int, tmp_path: Path) -> None:
    text = f"""
        things = {made}
        DataLoader(things[u.index])
        found = []
        for epoch in u.epochs:
            for thing in things:
                found.append(thing)
        DataLoader(found[0])
        """
    assert handed(run_of(tmp_path, text)) == [expected, expected]


def test_one_loop_many_passes(tmp_path: Path) -> None:
    text = """
        thing = make()
        for epoch in range(100):
            previous = thing
            thing = make()
            DataLoader(previous if epoch > 1 else thing)
        """
    assert handed(run_of(tmp_path, text)) == [2]  # one that was made before the loop, and one in it


def test_wrappers_of_several_modules(tmp_path: Path) -> None:
    text = """
        wrapped = []
        for module in (nn.Linear(1, 1), nn.Linear(1, 1)):
            wrapped.append(DDP(module))
        for epoch in u.epochs:
            one = wrapped[u.index]
            one(torch.randn(3, 1)).sum().backward()
        """
    run = run_of(tmp_path, text)
    trained = {id(module) for event in run.of_kind("backward") for module in event.modules}
    assert trained == {id(event.wrapper) for event in run.of_kind("wrap")}
    assert len(trained) == 2


def test_optimizers_that_one_function_makes(tmp_path: Path) -> None:
    text = """
        def optimizer(model):
            return torch.optim.SGD(model.parameters(), lr=0.1)
        first, second = nn.Linear(1, 1), nn.Linear(1, 1)
        optimizers = {"first": optimizer(first), "second": optimizer(second)}
        for x in u.batches:
            (first(x) + second(x)).sum().backward()
            optimizers[u.name].step()
        """
    run = run_of(tmp_path, text)
    assert {id(event.subject) for event in run.of_kind("step")} == {
        id(event.subject) for event in run.of_kind("optimizer")
    }
    assert len(run.of_kind("optimizer")) == 2


def test_more_objects_than_can_be_told_apart(tmp_path: Path) -> None:
    text = """
        DataLoader([make() for _ in (1, 2, 3, 4, 5, 6, 7)][u.index])
        """
    (event,) = run_of(tmp_path, text).of_kind("loader")
    assert {repr(thing) for thing in options(event.dataset)} == {"Instance(Thing)"}
