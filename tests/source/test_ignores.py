from __future__ import annotations

from pathlib import Path

import pytest

from dpcheck.findings.finding import Span
from dpcheck.source.ignores import Ignore, ignore_comments
from dpcheck.source.text import Source


def ignores(text: str) -> list[Ignore]:
    return ignore_comments(Source(Path("x.py"), text.encode(), text))


def covered(text: str) -> list[tuple[int, int]]:
    return [(ignore.first, ignore.last) for ignore in ignores(text)]


def test_one_comment() -> None:
    assert ignores("x = 1\ny = 2  # dpcheck: ignore[DP301, per-rank-mean] since\n") == [
        Ignore(
            span=Span("x.py", 2, 8, 2, 47),
            names=("DP301", "per-rank-mean"),
            name_spans=(Span("x.py", 2, 26, 2, 31), Span("x.py", 2, 33, 2, 46)),
            first=2,
            last=2,
            alone=False,
            malformed=False,
        )
    ]


@pytest.mark.parametrize(
    ("comment", "names", "malformed"),
    [
        ("# dpcheck: ignore[a]", ("a",), False),
        ("#dpcheck:ignore[a]reason", ("a",), False),
        ("#  dpcheck : ignore [ a ,b, ] # want: DP901", ("a", "b"), False),
        ("# noqa # dpcheck: ignore[a]", ("a",), False),
        ("# dpcheck: ignore[a b]", ("a b",), False),
        ("# dpcheck: ignore", (), True),
        ("# dpcheck: ignore all of it", (), True),
        ("# dpcheck: ignore[]", (), True),
        ("# dpcheck: ignore[ , ]", (), True),
        ("# dpcheck: ignore[a", (), True),
    ],
)
def test_forms(comment: str, names: tuple[str, ...], malformed: bool) -> None:
    (ignore,) = ignores(f"x = 1  {comment}\n")
    assert (ignore.names, ignore.malformed) == (names, malformed)


@pytest.mark.parametrize(
    "text",
    [
        "x = '# dpcheck: ignore[a]'\n",
        "x = '''\n# dpcheck: ignore[a]\n'''\n",
        "# see dpcheck: ignore[a]\n",
        "# dpcheck: ignored[a]\n",
        "x = 1  # other\n",
    ],
)
def test_what_is_none(text: str) -> None:
    assert ignores(text) == []


def test_two_in_one_comment() -> None:
    found = ignores("x = 1  # dpcheck: ignore[a] # dpcheck: ignore[b]\n")
    assert [(ignore.names, ignore.span.column) for ignore in found] == [(("a",), 8), (("b",), 29)]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("x = 1  # dpcheck: ignore[a]\n", (1, 1)),
        ("x = f(  # dpcheck: ignore[a]\n    1,\n)\n", (1, 1)),
        ("x = f(\n    1,  # dpcheck: ignore[a]\n)\n", (2, 2)),
        ("x = f(\n    1,\n)  # dpcheck: ignore[a]\n", (1, 3)),
        ("x = 1 + \\\n    2  # dpcheck: ignore[a]\n", (1, 2)),
        ("x = '''\n'''  # dpcheck: ignore[a]\n", (1, 2)),
        ("if f(\n    1):  # dpcheck: ignore[a]\n    x\n", (1, 2)),
        ("# dpcheck: ignore[a]\nx = 1\ny = 2\n", (2, 2)),
        ("# dpcheck: ignore[a]\n\n# more\nx = f(\n    1\n)\ny\n", (4, 6)),
        ("# dpcheck: ignore[a]\nif x:\n    y\n", (2, 2)),
        ("def f():\n    x\n    # dpcheck: ignore[a]\ny\n", (4, 4)),
        ("# dpcheck: ignore[a]\n@d(\n)\n@e\ndef f():\n    x\n", (2, 5)),
        ("x = f(\n    # dpcheck: ignore[a]\n\n    1,\n    2,\n)\n", (4, 4)),
        ("x = 1\n# dpcheck: ignore[a]\n", (2, 2)),
        ("x = 1  # dpcheck: ignore[a]", (1, 1)),
        ("x = 1\r\n\r\n# dpcheck: ignore[a]\r\ny = 1\r\n", (4, 4)),
        ("# dpcheck: ignore[a]\nx = (\n", (2, 1)),
    ],
)
def test_what_it_covers(text: str, lines: tuple[int, int]) -> None:
    if text.endswith("(\n"):
        assert len(ignores(text)) == 1  # what does not tokenize covers nothing
        return
    assert covered(text) == [lines]
    (ignore,) = ignores(text)
    assert [line for line in range(10) if ignore.covers(line)] == list(range(lines[0], lines[1] + 1))


def test_several() -> None:
    text = "# dpcheck: ignore[a]\n# dpcheck: ignore[b]\nx  # dpcheck: ignore[c]\n# dpcheck: ignore[d]\ny\n"
    assert covered(text) == [(3, 3), (3, 3), (3, 3), (5, 5)]
    assert [ignore.alone for ignore in ignores(text)] == [True, True, False, True]


def test_columns_are_in_characters() -> None:
    (ignore,) = ignores("x = '日本😀'  # dpcheck: ignore[a]\n")
    assert ignore.span == Span("x.py", 1, 12, 1, 32)
