"""Where a path ends: exits and exceptions, in functions and out of them, and what follows the paths that go on."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest

from dpcheck.execution import TrainingRun
from tests.execution.programs import UNKNOWN, execute, shown

HEAD = """
import argparse, contextlib, os, sys
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import unread_package as u
from torch.nn.parallel import DistributedDataParallel
"""

PROGRAMS: dict[str, tuple[str, list[Any]]] = {
    # ------------------------------------------------------------ what ends the process
    "sys.exit": (
        """
        show(1)
        sys.exit()
        show(2)
        """,
        [1],
    ),
    "os._exit, exit and quit": (
        """
        def one():
            os._exit(1)
        def two():
            exit()
        def three():
            quit(2)
        n = 0
        if u.a:
            n = 1
            one()
        if u.b:
            n = 2
            two()
        if u.c:
            n = 3
            three()
        show(n)
        """,
        [0],
    ),
    "another program goes on in the process": (
        """
        os.execvp("torchrun", ["torchrun", "train.py"])
        show(1)
        """,
        [],
    ),
    "the parser complains": (
        """
        parser = argparse.ArgumentParser()
        parser.add_argument("--n", type=int)
        args = parser.parse_args()
        n = 1
        if args.n is None:
            n = 2
            parser.error("how many?")
        show(n)
        """,
        [1],
    ),
    "the exit of what was called on the way": (
        """
        sys.exit(show(1))
        show(2)
        """,
        [1],
    ),
    "an exit that is raised, by another name": (
        """
        Leave = SystemExit
        def leave():
            error = Leave(3)
            raise error
        if u.flag:
            show(1)
            leave()
            show(2)
        show(3)
        """,
        [1, 3],
    ),
    "a process of its own": (
        """
        def work(rank):
            show(1)
            sys.exit()
        mp.spawn(work, nprocs=2)
        show(2)
        """,
        [1, 2],
    ),
    # ------------------------------------------------------------ functions that do not return
    "every path of a function ends": (
        """
        def fail(n):
            if n > u.limit:
                raise ValueError(n)
            sys.exit(f"{n} is too small")
        def check(n):
            print(n)
            fail(n)
        n = 1
        if u.flag:
            n = 2
            check(n)
            show(0)
        show(n)
        """,
        [1],
    ),
    "a function that returns on one path": (
        """
        def check(n):
            if u.flag:
                raise ValueError(n)
            return n
        show(check(1))
        """,
        [1],
    ),
    "what a path wrote before it ended": (
        """
        state = {"n": 1}
        def check():
            if u.flag:
                return state["n"]
            state["n"] = 2
            sys.exit()
        show(check(), state["n"])
        """,
        [(1, 1)],
    ),
    "what several paths wrote before they left": (
        """
        n = k = 0
        def check():
            global n, k
            if u.a:
                n = 1
                if u.b:
                    k = 1
                    return "early"
                k = 5
                return "late"
            n, k = 2, 2
            if u.c:
                return "other"
            n, k = 7, 7
            raise ValueError
        show(check(), n, k)
        """,
        [(frozenset({"early", "late", "other"}), frozenset({1, 2}), frozenset({1, 2, 5}))],
    ),
    "a path that left a branch keeps what the branch had written": (
        """
        n = 0
        def check():
            global n
            if u.a:
                n = 1
                if u.b:
                    return
                n = 0
            raise ValueError
        check()
        show(n)
        """,
        [1],
    ),
    "a constructor that raises": (
        """
        class Refuses:
            def __init__(self):
                raise TypeError("abstract")
        n = 1
        if u.flag:
            n = 2
            Refuses()
        show(n)
        """,
        [1],
    ),
    "operands and conditional expressions": (
        """
        def fail():
            raise KeyError
        show(u.path or fail(), 1 if u.flag else fail())
        show(u.first.get("x", 2) and sys.exit())
        show([fail() for _ in range(3)] if u.flag else 3)
        """,
        [("<unread_package.path>", 1), UNKNOWN, 3],
    ),
    "one of the functions that may be called": (
        """
        def fail():
            raise KeyError
        def one():
            return 1
        f = one if u.flag else fail
        show(f())
        show((fail if u.flag else sys.exit)())
        """,
        [1],
    ),
    "an abstract method stands for another one": (
        """
        class Base:
            def __init__(self):
                self.n = 1
            def build(self):
                raise NotImplementedError
            def run(self):
                show(self.build())
                show(self.n)
        Base().run()
        """,
        [UNKNOWN, frozenset({1, UNKNOWN})],
    ),
    "assert False": (
        """
        def kind(name):
            if name == "a":
                return 1
            elif name == "b":
                return 2
            assert False, name
        show(kind("a"), kind("c") if u.flag else kind("b"))
        """,
        [(1, 2)],
    ),
    "an error that would end every run is not believed": (
        """
        def check(n):
            if n != 3:
                raise ValueError(n)
            return n
        show(check(3), check(4))
        show(2)
        """,
        [(3, UNKNOWN), 2],
    ),
    "nor is one of ranks that train": (
        """
        class Rows(torch.utils.data.Dataset):
            names = {}
            def __getitem__(self, i):
                if "x" not in self.names:
                    raise KeyError("x")
                return i
        if u.train:
            for x in torch.utils.data.DataLoader(Rows()):
                show(x)
        """,
        [1, UNKNOWN],  # the loader's own batch size first
    ),
    "an attribute that is refused": (
        """
        class Wrapper:
            def __getattr__(self, name):
                raise AttributeError(name)
        show(getattr(Wrapper(), "x", 1), Wrapper().y)
        """,
        [(UNKNOWN, UNKNOWN)],
    ),
    "an iterator that is exhausted at once": (
        """
        class Nothing:
            def __iter__(self):
                return self
            def __next__(self):
                raise StopIteration
        for x in Nothing():
            show(1)
        show(next(Nothing(), 2))
        """,
        [2],
    ),
    # ------------------------------------------------------------ try and with
    "an exit is caught by few": (
        """
        try:
            sys.exit()
        except ValueError:
            show(1)
        except (KeyboardInterrupt, SystemExit):
            show(2)
        try:
            sys.exit()
        except Exception:
            show(3)
        finally:
            show(4)
        show(5)
        """,
        [2, 4],
    ),
    "a path that left before the exception": (
        """
        def f():
            try:
                if u.flag:
                    return 1
                raise ValueError
            except ValueError:
                return 2
        show(f())
        """,
        [frozenset({1, 2})],
    ),
    "each handler by itself": (
        """
        n = 0
        try:
            u.work()
        except ImportError:
            n = 1
            sys.exit()
        except ValueError:
            n = 2
        except KeyError:
            n = 3
        show(n)
        """,
        [frozenset({0, 2, 3})],
    ),
    "a manager that swallows an exception": (
        """
        n = 1
        with contextlib.suppress(ValueError):
            n = 2
            raise ValueError
        show(n)
        with open("x"):
            raise ValueError
        show(3)
        """,
        [2],
    ),
    # ------------------------------------------------------------ loops
    "a loop that raises may have nothing to loop over": (
        """
        n = 1
        for name in u.unexpected:
            n = 2
            raise ValueError(name)
        show(n)
        """,
        [1],
    ),
    "one that has something": (
        """
        for name in ("a", "b"):
            show(name)
            raise ValueError(name)
        show(1)
        """,
        ["a"],
    ),
    "and one that never ends": (
        """
        while True:
            show(1)
            if u.flag:
                sys.exit(2)
            raise ValueError
        show(2)
        """,
        [1],
    ),
    "a pass that is left early": (
        """
        def first(names):
            for name in names:
                if u.flag:
                    continue
                raise ValueError(name)
            return "all"
        show(first(u.names))
        def find(names):
            for name in names:
                if u.flag:
                    continue
                return "found"
            return "none"
        show(find(u.names))
        """,
        ["all", frozenset({"found", "none"})],
    ),
}


def run_of(folder: Path, text: str) -> TrainingRun:
    return execute(folder, HEAD + textwrap.dedent(text))


@pytest.mark.parametrize("name", PROGRAMS)
def test_values(name: str, tmp_path: Path) -> None:
    text, expected = PROGRAMS[name]
    run = run_of(tmp_path, text)
    assert run.complete
    assert shown(run) == expected


@pytest.mark.parametrize(
    ("ending", "kept"), [("sys.exit()", True), ("return", True), ("raise ValueError", False)], ids=str
)
def test_what_was_done_before_an_exit_counts(ending: str, kept: bool, tmp_path: Path) -> None:
    text = f"""
        def main():
            dist.init_process_group()
            if u.flag:
                dist.barrier()
                {ending}
        main()
        """
    run = run_of(tmp_path, text)
    assert bool(run.of_kind("collective")) == kept


def test_ranks_that_exit_are_not_there_for_what_follows(tmp_path: Path) -> None:
    text = """
        def main():
            dist.init_process_group()
            if dist.get_rank() != 0:
                sys.exit()
            dist.barrier()
        main()
        """
    (event,) = run_of(tmp_path, text).of_kind("collective")
    (guard,) = event.guards
    assert guard.by_rank
    assert not guard.holds


@pytest.mark.parametrize("ending", ["sys.exit()", "pass"])
@pytest.mark.parametrize("launch", ["mp.spawn(work, nprocs=2)", "work(0)"])
def test_ranks_are_started_on_one_side(launch: str, ending: str, tmp_path: Path) -> None:
    text = f"""
        def work(rank):
            dist.init_process_group()
            model = DistributedDataParallel(torch.nn.Linear(1, 1))
            model(torch.randn(3, 1)).sum().backward()
        if u.distributed:
            {launch}
            {ending}
        else:
            show(2)
        show(1)
        """
    run = run_of(tmp_path, text)
    assert len(run.of_kind("backward")) == 1
    if launch == "work(0)" and ending == "sys.exit()":
        assert shown(run) == [2, 1]  # what trains and leaves may be what is done where the others are started later
    else:
        assert shown(run) == ([1] if ending == "pass" else [])


def test_an_evaluation_on_many_ranks_does_not_stand_for_the_training(tmp_path: Path) -> None:
    text = """
        def wrapped():
            return DistributedDataParallel(torch.nn.Linear(1, 1))
        if u.evaluate:
            wrapped()(torch.randn(3, 1))
            sys.exit()
        wrapped()(torch.randn(3, 1)).sum().backward()
        """
    run = run_of(tmp_path, text)
    assert len(run.of_kind("backward")) == 1
