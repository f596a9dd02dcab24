from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from dpcheck.source import nesting
from dpcheck.source.syntax import check_syntax, on_stack, parse
from dpcheck.source.text import Source, Unreadable


def source(text: str) -> Source:
    return Source(Path("x.py"), text.encode(), text)


def verdict(text: str) -> tuple[str, int, int] | None:
    try:
        check_syntax(source(text))
    except Unreadable as error:
        return error.reason, error.line, error.column
    return None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# only a comment",
        "x = 1",
        "x = '\\d'  # a warning at most",
        "def f():\n\tif x:\n\t\treturn 1",
        "type X = int\n",
        "def f[T](x: T) -> T: ...",
        "f'{a['x']}'",
        "return 1",
        "x = " + "9" * 5000,
    ],
)
def test_what_is_python(text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert verdict(text) is None


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("x = 1\nprint 'a'\n", 2),
        ("\nexec 'x'", 2),
        ("x = `a`", 1),
        ("x = 0777", 1),
        ("x = 10L", 1),
        ("x = ur'a'", 1),
        ("\n\nraise E, 'x'", 3),
        ("if a <> b: pass", 1),
        ("try:\n    pass\nexcept ValueError, e:\n    pass", 3),
        ("def f((a, b)): pass", 1),
        ("if a:\n\tb\n        c", 3),
    ],
)
def test_python_2(text: str, line: int) -> None:
    found = verdict(text)
    assert found is not None
    assert found[0].startswith("is not valid Python: ")
    assert found[1] == line


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [("x = (\n1", 1, 5), ("def f(:\n", 1, 7), ("'''abc", 1, 1), ("x\n  y", 2, 2), ("ä = 1\nä = $", 2, 5)],
)
def test_where_it_fails(text: str, line: int, column: int) -> None:
    found = verdict(text)
    assert found is not None
    assert found[1:] == (line, column)


# ---------------------------------------------------------------- nesting

DEEP = {
    "parentheses": lambda n: "x = " + "(" * n + "a" + ")" * n,
    "lists": lambda n: "x = " + "[" * n + "]" * n,
    "dicts": lambda n: "x = " + "{1:" * n + "1" + "}" * n,
    "nested calls": lambda n: "f(" * n + ")" * n,
    "calls": lambda n: "f" + "()" * n,
    "attributes": lambda n: "a" + ".b" * n,
    "subscripts": lambda n: "a" + "[0]" * n,
    "negations": lambda n: "x = " + "-" * n + "a",
    "nots": lambda n: "x = " + "not " * n + "a",
    "lambdas": lambda n: "x = " + "lambda: " * n + "a",
    "conditionals": lambda n: "x = " + "a if b else " * n + "a",
    "powers": lambda n: "x = " + "a ** " * n + "a",
    "sums": lambda n: "x = " + "a + " * n + "a",
    "sums on lines": lambda n: "x = (" + "a +\n" * n + "a)",
    "sums over backslashes": lambda n: "x = " + "a + \\\n" * n + "a",
    "conjunctions": lambda n: "x = " + "a and " * n + "a",
    "strings": lambda n: "x = (" + "'a'\n" * n + ")",
    "elifs": lambda n: "if a: pass\n" + "elif a: pass\n" * n,
    "elifs and comments": lambda n: "def f():\n  if a:\n    b\n" + "# c\n  elif a:\n\n    b(\n)\n" * n,
    "comprehensions": lambda n: "x = [a " + "for a in b " * n + "]",
    "import": lambda n: "import a" + ".a" * n,
    "patterns": lambda n: "match x:\n case " + "[" * n + "]" * n + ": pass",
    "mapping patterns": lambda n: "match x:\n case " + "{1: " * n + "a" + "}" * n + ": pass",
    "f-string": lambda n: "x = f'{" + "(" * n + "a" + ")" * n + "}'",
    "f-strings": lambda n: "x = " + "f'{" * n + "a" + "}'" * n,
    "in a string's shadow": lambda n: "x = " + "(')', " * n + "a" + ")" * n,
    "in a comment's shadow": lambda n: "x = " + "( # )\n" * n + "a" + ")" * n,
}  # fmt: skip


@pytest.mark.parametrize("form", DEEP)
def test_nothing_is_too_deep_to_be_judged(form: str) -> None:
    """In a process of its own, since what goes wrong here goes wrong with SIGSEGV."""
    code = (
        "import sys; from tests.source.test_syntax import DEEP, verdict\n"
        f"for depth in (2_000, 20_000, 200_000): print((verdict(DEEP[{form!r}](depth)) or ['fine'])[0])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[2] == "nests too deeply"


@pytest.mark.parametrize("form", ["sums", "sums on lines", "conjunctions", "strings", "elifs", "elifs and comments"])
def test_what_generated_code_does(form: str) -> None:
    text = DEEP[form](1000)
    assert verdict(text) is None
    assert len(on_stack(source(text), lambda: parse(source(text))).body) == 1


@pytest.mark.parametrize("form", DEEP)
def test_measure_sees_every_kind_of_depth(form: str) -> None:
    depth, offset = nesting.measure(DEEP[form](7))
    assert depth >= 7 or form == "f-string"  # which is looked into only when it is long
    assert offset is None
    assert nesting.measure(DEEP[form](4000))[1] is not None


@pytest.mark.parametrize(
    "text",
    [
        "x = [\n" + "    (1, 'a', f(b.c)[0]),\n" * 20_000 + "]\n",
        "x = f(a.b, c + d)\n" * 20_000,
        "def f(): return '''\n" + "((((\n" * 1000 + "'''\n",
        "# ((((\n" * 1000,
        "x = f'((((' + y\n" * 1000,
        "x = f\"{d[\"a(\"]}\"\nif x: pass\ndef g(): pass\n" * 1000,  # as scanned before Python 3.12
        "x = (f'''" + "{{ margin: 0; }} .a > b - c\n{d} " * 2000 + "''')\n",
        "if a:\n    b\nelif c:\n    d\n" * 5000,
        "a = b = " * 5000 + "1",
        "x = " + "a < " * 5000 + "b",
        "case = [[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]\n",
    ],
)  # fmt: skip
def test_what_is_long_but_not_deep(text: str) -> None:
    depth, offset = nesting.measure(text)
    assert offset is None
    assert depth < 250


def test_where_it_is_too_deep() -> None:
    assert verdict("x = 1\ny = " + "(" * 300) == ("nests too deeply", 2, 205)


def test_a_long_file() -> None:
    text = "def f(x):\n    for i in range(10):\n        print(x + i)\n    return x\n\n" * 10_000
    assert verdict(text) is None


def test_recursion_near_the_limit() -> None:
    """Called from deep down a stack, what is shallow is judged all the same."""
    text = "x = " + "(" * 40 + "a" + ")" * 40

    def down(levels: int) -> None:
        if levels:
            down(levels - 1)
        else:
            assert verdict(text) is None

    down(sys.getrecursionlimit() - 200)
    limit = sys.getrecursionlimit()
    assert verdict(DEEP["sums"](1000)) is None
    assert sys.getrecursionlimit() == limit
