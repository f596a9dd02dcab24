from __future__ import annotations

import contextlib
import os
import random
import signal
import sysconfig
import threading
from pathlib import Path

import pytest

from dpcheck.program import intake
from dpcheck.program.intake import (
    MODULES,
    UNSTORABLE,
    Entry,
    Stored,
    examine,
    failed,
    take_in,
    take_in_all,
    take_in_alone,
    unpack,
)
from dpcheck.source import syntax
from dpcheck.source.child import LARGE
from dpcheck.source.ignores import ignore_comments
from dpcheck.source.positions import Positions
from dpcheck.source.text import Source, Unreadable, decode

HERE = Path("x.py")


def test_what_an_entry_says() -> None:
    entry = examine(HERE, b"import torch\nloss.backward()\n")
    assert (entry.error, entry.relevant, entry.imports) == (None, True, ())
    assert entry.module is not None
    assert len(MODULES.decode(entry.module).body) == 2
    entry = examine(
        HERE, b"import sys\nfrom a import b\nsys.path.append('x')\nif __name__ == '__main__': b()  # dpcheck\n"
    )
    assert entry == Entry(None, False, True, True, True, ((0, "sys"), (0, "a"), (0, "a.b")), None)
    entry = examine(HERE, b"x = 1\n", lower=True)
    assert entry.module is not None
    assert MODULES.decode(entry.module).nodes == 4
    assert examine(HERE, b"") == Entry(None, False, False, False, False, (), None)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"x = (\n", ("is not valid Python: '(' was never closed", 1, 5)),
        (b"x\n\xff", ("cannot be decoded as utf-8", 2, 1)),
        (b"backward(" * 300, ("nests too deeply", 1, 1809)),
        (b"(loss).backward\n(x): int = 1\nloss.backward()\n", ("cannot be parsed", 2, 1)),
        (b"x = '\\ud800'; loss.backward()\n", None),
        (b"", None),
    ],
)
def test_errors(data: bytes, error: tuple[str, int, int] | None) -> None:
    entry = examine(HERE, data)
    if error is not None and error[0] == "cannot be parsed":  # by libcst 1.9: a later one may read it
        assert entry.error in (None, error)
        return
    assert entry.error == error
    if error is not None:
        assert (entry.relevant, entry.module) == (False, b"")


def test_the_verdict_does_not_depend_on_being_imported() -> None:
    data = b"(x): int = 1\n"  # which libcst 1.9 does not read
    assert examine(HERE, data).error is None
    assert examine(HERE, data, lower=True).error is None
    assert examine(HERE, b"x = (", lower=True) == examine(HERE, b"x = (")


@pytest.mark.parametrize("length", [10, 1000])
def test_long_chains_are_read_whatever_can_be_stored(tmp_path: Path, length: int) -> None:
    path = tmp_path / "a.py"
    path.write_text("if a: b\n" + "elif a: b\n" * length + "x = " + "a + " * length + "a\n")
    entry = take_in(path, lower=True).entry
    assert entry.error is None
    assert entry.module
    assert unpack(path, entry.module).nodes == 4 * (length + 1) + 2 * length + 4
    assert unpack(path, UNSTORABLE).nodes == unpack(path, entry.module).nodes


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    stored = take_in(tmp_path / "gone.py")
    assert stored.size == -1
    assert stored.entry.error == ("cannot be read: No such file or directory", 1, 1)


def test_a_file_that_is_too_large(tmp_path: Path) -> None:
    path = tmp_path / "big.py"
    with path.open("wb") as file:
        file.truncate(3 << 30)
    assert take_in(path) == Stored(0, -1, b"", failed("is larger than 4 MiB"))


def test_more_memory_than_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def judge(source: Source) -> None:
        raise MemoryError

    (tmp_path / "a.py").write_text("x = 1\n")
    monkeypatch.setattr(intake, "judge", judge)
    assert take_in(tmp_path / "a.py") == Stored(0, -1, b"", failed("takes more memory than there is"))


@pytest.fixture
def many(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / f"m{number}.py" for number in range(120)]
    for number, path in enumerate(paths):
        path.write_text(f"x = {number}\nloss.backward()\n" if number % 10 else "x = (\n")
    return paths


@pytest.mark.parametrize("jobs", [1, 3])
def test_many_files(many: list[Path], jobs: int) -> None:
    found = dict(take_in_all(many, jobs=jobs))
    assert found == {path: take_in(path) for path in many}
    assert list(take_in_all([], jobs=jobs)) == []


needs_fork = pytest.mark.skipif(
    not hasattr(os, "fork") or threading.active_count() > 1, reason="workers are forked, and not beside other threads"
)


@needs_fork
@pytest.mark.parametrize(
    "victims", [{"m0.py"}, {"m7.py", "m8.py"}, {"m119.py"}, {f"m{number}.py" for number in range(120)}]
)
def test_a_file_that_kills_its_worker(many: list[Path], victims: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    parent, judge = os.getpid(), syntax.judge

    def kill(source: Source) -> None:
        if source.path.name in victims and os.getpid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)
        judge(source)

    monkeypatch.setattr(intake, "judge", kill)
    found = dict(take_in_all(many, jobs=3))
    assert set(found) == set(many)
    crashed = {path.name for path, stored in found.items() if stored.entry.error == ("crashes the parser", 1, 1)}
    assert crashed == victims


@needs_fork
def test_a_large_file_is_read_in_a_process_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    large, small = tmp_path / "large.py", tmp_path / "small.py"
    large.write_text("loss.backward()\n" * 20_000)
    small.write_text("loss.backward()\n")
    assert large.stat().st_size > LARGE
    assert dict(take_in_all([large, small])) == {large: take_in(large), small: take_in(small)}
    parent = os.getpid()

    def kill(source: Source) -> None:
        if os.getpid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(intake, "judge", kill)
    assert take_in_alone(small) == take_in(small)
    assert take_in_alone(large) == Stored(0, -1, b"", failed("crashes the parser"))

    def none_left() -> int:
        raise BlockingIOError

    monkeypatch.setattr(os, "fork", none_left)
    assert take_in_alone(large) == take_in(large)


@needs_fork
def test_workers_end_when_no_one_listens(many: list[Path]) -> None:
    import multiprocessing

    results = take_in_all(many, jobs=3)
    next(results)
    assert multiprocessing.active_children()
    results.close()  # type: ignore[attr-defined]
    for child in multiprocessing.active_children():
        child.join(10)
    assert not multiprocessing.active_children()


# ---------------------------------------------------------------- damaged programs

STANDARD = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
SMALL = [path for path in STANDARD if 500 < path.stat().st_size < 12_000]
BRACKETS = [bytes([char]) for char in b"()[]{}"]
SIGNS = [bytes([char]) for char in b"\"'\\#:,=*@!$?`;\n \t\r\f\0\x1a\xff"]
WORDS = [
    b"lambda",
    b"case ",
    b"\n match x:\n case ",
    b"async ",
    b"await ",
    b"0777",
    b"1_",
    b"0x",
    b"1e",
    b'f"{',
    b'"""',
]
CODING = [b"# coding: latin-1\n", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"\\N{", b"\\x"]
PIECES = [*BRACKETS, *SIGNS, *WORDS, *CODING]


@pytest.mark.parametrize("seed", range(60))
def test_damaged_programs(seed: int) -> None:
    """Whatever a file holds, it is read or told to be unreadable."""
    chance = random.Random(seed)
    data = chance.choice(SMALL).read_bytes()
    if chance.random() < 0.2:
        data = data[: chance.randrange(len(data))]
    for _ in range(chance.choice([1, 1, 2, 5])):
        place, other = chance.randrange(len(data) + 1), chance.randrange(len(data) + 1)
        data = chance.choice(
            [
                data[:place] + chance.choice(PIECES) + data[place:],
                data[:place] + chance.choice(PIECES) * chance.choice([3, 50, 500, 5000]) + data[place:],
                data[:place] + data[place + chance.randrange(10) :],
                data[:place] + data[other : other + chance.randrange(200)] + data[place:],
            ]
        )
    entry = examine(HERE, data, lower=True)
    if entry.module == b"" and entry.error is None:
        compile(data, "x.py", "exec")  # which libcst does not read
    elif entry.error is None:
        assert entry.module is not None
        module, source = MODULES.decode(entry.module), decode(HERE, data)
        alone, known = Positions(source), Positions(source, module)
        assert [known.span(at) for at in range(module.nodes)] == [alone.span(at) for at in range(module.nodes)]
    else:
        reason, line, column = entry.error
        assert reason
        assert line >= 1
        assert column >= 1
    with contextlib.suppress(Unreadable):
        ignore_comments(decode(HERE, data + b"\n# dpcheck: ignore[a]"))
