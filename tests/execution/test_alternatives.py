"""Many alternatives of which nobody knows which one happens: cases of a `match`, handlers of a `try`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.execution.programs import UNKNOWN, execute, shown

MANY = 5_000


def values(folder: Path, text: str) -> Any:
    run = execute(folder, f"import unread_package as u\n{text}")
    assert run.complete
    (found,) = shown(run)
    return found


@pytest.mark.parametrize("subject", ["u.x", "u.x()", "(u.x, u.y)"])
def test_each_case_may_be_the_one(tmp_path: Path, subject: str) -> None:
    text = f"""
def f(x):
    match x:
        case 1:
            return "a"
        case [_, 2] if u.y:
            return "b"
        case 3 | 4:
            pass
        case {{"k": k}}:
            return k
    return "c"

show(f({subject}))
"""
    assert values(tmp_path, text) == frozenset({"a", "b", "c", UNKNOWN})


def test_what_cannot_match_is_not_executed(tmp_path: Path) -> None:
    text = """
n = 0
match 7:
    case 1 | 2:
        n = 1
    case u.x:
        n = 2
    case 7:
        n = 3
    case _:
        n = 4
show(n)
"""
    assert values(tmp_path, text) == frozenset({2, 3})


def test_a_case_that_leaves_the_loop(tmp_path: Path) -> None:
    text = """
n = 0
for i in (1, 2):
    match u.x:
        case "a":
            n = 1
            continue
        case "b":
            n = 2
            break
        case "c":
            raise ValueError
    n = 3
show(n)
"""
    assert values(tmp_path, text) == frozenset({1, 2, 3})


def test_the_subject_is_not_what_its_truth_would_be(tmp_path: Path) -> None:
    text = """
x = None if u.a else "text"
match x:
    case str() if u.b:
        show(x)
    case None if u.b:
        show(x)
"""
    run = execute(tmp_path, f"import unread_package as u\n{text}")
    assert shown(run) == [frozenset({None, "text"})] * 2


def test_a_group_that_is_started_in_one_case_is_the_run_in_question(tmp_path: Path) -> None:
    cases = "".join(f"    case {number}:\n        backend = {number}\n" for number in range(20))
    text = f"import torch.distributed as dist\nmatch u.x:\n{cases}    case 20:\n        dist.init_process_group()\n"
    text += "        backend = 20\n    case 21:\n        backend = 21\nshow(backend)\n"
    assert values(tmp_path, text) == 20


def test_thousands_of_cases(tmp_path: Path) -> None:
    cases = "".join(f'    case "{number}":\n        n{number} = {number % 2}\n' for number in range(MANY))
    assert values(tmp_path, f"n{MANY - 1} = 5\nmatch u.x:\n{cases}show(n{MANY - 1})\n") == frozenset(
        {5, (MANY - 1) % 2}
    )
    assert values(tmp_path, f'n = 5\nmatch "{MANY - 1}":\n{cases}show(n{MANY - 1})\n') == (MANY - 1) % 2


def test_thousands_of_handlers(tmp_path: Path) -> None:
    handlers = "".join(f"except u.Error{number}:\n    n = {number % 2}\n" for number in range(MANY))
    assert values(tmp_path, f"n = 5\ntry:\n    u.call()\n{handlers}show(n)\n") == frozenset({5, 0, 1})
