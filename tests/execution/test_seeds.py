"""Random states: what seeds them for certain, and after what nobody knows."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tests.execution.programs import execute

HEAD = """
import argparse, random, time
import torch
import torch.distributed as dist
import unread_package as u
from torch import nn

dist.init_process_group("gloo")
parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--name", default="a")
args = parser.parse_args()
rank = dist.get_rank()
"""
ALIKE, APART, UNSEEDED, UNKNOWN = "alike", "by rank", "unseeded", "unknown"


def drawn(folder: Path, text: str) -> str:
    """The state that the last draw of the program is made from."""
    state = execute(folder, HEAD + textwrap.dedent(text)).of_kind("draw")[-1].state
    if state.place.is_unknown:
        return UNKNOWN
    if state.place.is_replicate:
        return ALIKE
    return APART if state.seeded else UNSEEDED


@pytest.mark.parametrize("seed", ["3", "args.seed", "rank", "args.seed + rank"])
@pytest.mark.parametrize(
    ("call", "stands"),
    [
        ("u.setup()", True),
        ("u.log('loss', 0.5, True, None)", True),
        ("u.load(args.name)", True),
        ("u.build(nn.Linear(3, 4), torch.optim.SGD(nn.Linear(3, 3).parameters(), lr=1))", True),
        ("u.each(lambda x: x + 1)", True),
        ("u.show(torch.randn(3, 4).mean())", True),
        ("[u.log(step) for step in range(100)]", True),
        ("u.setup(7)", False),
        ("u.setup(args.seed)", False),
        ("u.setup(seed=rank + 5)", False),
        ("u.setup(int(time.time()))", False),
        ("u.setup(args)", False),
        ("u.setup({'train': {'seed': 3}})", False),
        ("u.setup(u.settings())", False),
        ("u.Runner().start(vars(args))", False),
    ],
)
def test_a_seed_that_was_set_before_an_unread_call(seed: str, call: str, stands: bool, tmp_path: Path) -> None:
    text = f"""
        torch.manual_seed({seed})
        {call}
        torch.randn(3)
        """
    assert drawn(tmp_path, text) == (UNKNOWN if not stands else APART if "rank" in seed else ALIKE)


def test_an_unread_call_may_be_the_first_to_seed(tmp_path: Path) -> None:
    assert drawn(tmp_path, "torch.randn(3)") == UNSEEDED
    assert drawn(tmp_path, "u.setup()\ntorch.randn(3)") == UNKNOWN
    assert drawn(tmp_path, "u.setup(3)\ntorch.manual_seed(rank)\ntorch.randn(3)") == APART


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("torch.manual_seed(1)", "torch.manual_seed(2)", ALIKE),
        ("torch.manual_seed(args.seed)", "torch.manual_seed(0)", ALIKE),
        ("torch.manual_seed(rank)", "torch.manual_seed(rank + 1)", APART),
        ("torch.manual_seed(rank)", "torch.manual_seed(0)", UNKNOWN),
        ("torch.manual_seed(0)", "u.setup(args)", UNKNOWN),
    ],
)
def test_a_seed_that_is_one_or_another(first: str, second: str, expected: str, tmp_path: Path) -> None:
    text = f"""
        torch.manual_seed(0)
        if u.flag:
            {first}
        else:
            {second}
        torch.randn(3)
        """
    assert drawn(tmp_path, text) == expected


@pytest.mark.parametrize(("seed", "expected"), [("epoch", ALIKE), ("epoch + rank", APART)])
def test_a_seed_that_is_set_in_every_pass(seed: str, expected: str, tmp_path: Path) -> None:
    text = f"""
        torch.manual_seed(0 if "{seed}" == "epoch" else rank)
        for epoch in range(100):
            torch.randn(3)
            torch.manual_seed({seed})
        torch.randn(3)
        """
    assert drawn(tmp_path, text) == expected


@pytest.mark.parametrize(("seeds", "expected"), [(False, ALIKE), (True, UNKNOWN)])
def test_a_function_that_is_not_executed_any_more(seeds: bool, expected: str, tmp_path: Path) -> None:
    """Does it seed? It was seen to, or not to, before."""
    text = f"""
        def settle(n):
            if {seeds}:
                torch.manual_seed(n)

        def work(n):
            total = 0
            {"; ".join(["total = total * n + n * n - total + n * (n + 1)"] * 1300)}
            settle(n)
            return total

        for n in (1, 2, 3, 4, 5, 6):
            work(n)
        torch.manual_seed(0)
        work(args.seed)
        torch.randn(3)
        """
    assert drawn(tmp_path, text) == expected
