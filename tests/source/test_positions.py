from __future__ import annotations

import ast
import codecs
import contextlib
import os
import random
import re
import signal
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import libcst as cst
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcheck.program.lower import lower
from dpcheck.source import positions as module
from dpcheck.source import syntax
from dpcheck.source.child import can_fork
from dpcheck.source.positions import Place, Positions
from dpcheck.source.text import Source, Unreadable, decode

NEWLINE = re.compile(r"\r\n?|\n")


def source(text: str) -> Source:
    return Source(Path("x.py"), text.encode(), text)


def nodes(text: str) -> list[cst.CSTNode]:
    found: list[cst.CSTNode] = []
    lower(cst.parse_module(text), found)
    return found


def cut(text: str, span: tuple[int, int, int, int]) -> str:
    line, column, end_line, end_column = span
    lines = NEWLINE.split(text)
    if line == end_line:
        return lines[line - 1][column - 1 : end_column - 1]
    return "\n".join(
        [lines[line - 1][column - 1 :], *lines[line : end_line - 1], lines[end_line - 1][: end_column - 1]]
    )


def places(text: str) -> list[Place]:
    """Where all records stand: the same, whether the file is taken apart, and how far."""
    found: list[cst.CSTNode] = []
    records = lower(cst.parse_module(text), found)
    whole = Positions(source(text))
    result = [whole.span(at) for at in range(len(found))]
    for long in (0, module.LONG):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "LONG", long)
            apart = Positions(source(text), records)
        assert [apart.span(at) for at in range(len(found))] == result
    return result


def spans(text: str, kind: type[cst.CSTNode]) -> list[str]:
    """What the spans of all nodes of a kind hold."""
    return [cut(text, span) for span, node in zip(places(text), nodes(text), strict=True) if isinstance(node, kind)]


# ---------------------------------------------------------------- what a span holds


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        ("def f(a):\n    pass\n", cst.FunctionDef, ["def f(a):"]),
        ("@d\n@e(1)\n# c\nasync  def f() -> int : pass\n", cst.FunctionDef, ["async  def f() -> int :"]),
        ("def f(a,\n      b): # c\n    pass\n", cst.FunctionDef, ["def f(a,\n      b):"]),
        ("@d\nclass A(B, c=1):\n    x = 1\n", cst.ClassDef, ["class A(B, c=1):"]),
        ("class A : x = 1\n", cst.ClassDef, ["class A :"]),
        ("if a:\n  b\nelif (c) :  # d\n  e\nelse:\n  f\n", cst.If, ["if a:", "elif (c) :"]),
        ("for a in b: c\nelse: d\n", cst.For, ["for a in b:"]),
        ("while  a :\n\n  b\n", cst.While, ["while  a :"]),
        ("with a as b, (c): d\n", cst.With, ["with a as b, (c):"]),
        ("with (a as b,\n      c): d\n", cst.With, ["with (a as b,\n      c):"]),
        ("with a as b, (c): d\n", cst.WithItem, ["a as b", "(c)"]),
        ("try :\n  a\nexcept (A, B) as c : d\nexcept: e\nfinally: f\n", cst.Try, ["try :"]),
        ("try:\n  a\nexcept (A, B) as c : d\nexcept: e\n", cst.ExceptHandler, ["except (A, B) as c :", "except:"]),
        ("try: a\nexcept* A: b\n", cst.ExceptStarHandler, ["except* A:"]),
        ("match a :\n  # b\n  case [1, c] if d : e\n", cst.Match, ["match a :"]),
        ("match a :\n  # b\n  case [1, c] if d : e\n", cst.MatchCase, ["case [1, c] if d :"]),
        ("x = ((a,  b))", cst.Tuple, ["(a,  b)"]),
        ("x = a,  b", cst.Tuple, ["a,  b"]),
        ("x = (a + b) * c", cst.BinaryOperation, ["(a + b) * c", "a + b"]),
        ("x = (a for b in c)", cst.GeneratorExp, ["(a for b in c)"]),
        ("f(a for b in c)", cst.GeneratorExp, ["a for b in c"]),
        ("[a for b in c if (d) async for e in (f)]", cst.CompFor, ["for b in c if (d)", "async for e in (f)"]),
        ("f(a)(b = 1, * c , )", cst.Arg, ["a", "b = 1", "* c"]),
        ("a.b.c()", cst.Attribute, ["a.b.c", "a.b"]),
        ("def f(a, *, b: int = 1): pass", cst.Param, ["a", "b"]),
        ("a ; b = 1", cst.Assign, ["b = 1"]),
        ("import a.b as c,  d", cst.ImportAlias, ["a.b as c", "d"]),
        ("x = ('a'\n  f'{b}')", cst.ConcatenatedString, ["'a'\n  f'{b}'"]),
        ("x[1:2, 3]", cst.Slice, ["1:2"]),
    ],
)
def test_what_a_span_holds(text: str, kind: type[cst.CSTNode], expected: list[str]) -> None:
    assert spans(text, kind) == expected
    assert spans(text.replace("\n", "\r\n"), kind) == expected


# ---------------------------------------------------------------- against Python's own parser


def names_by_python(text: str) -> set[tuple[str, int, int, int, int]]:
    """The names in expressions that are lowered; f-strings apart, whose parts Python 3.11 misplaces."""
    lines = [line.encode() for line in NEWLINE.split(text)]

    def column(line: int, offset: int) -> int:
        return len(lines[line - 1][:offset].decode()) + 1

    def visit(node: ast.AST) -> Iterator[tuple[str, int, int, int, int]]:
        for field, value in ast.iter_fields(node):
            if isinstance(node, ast.JoinedStr) or (type(node).__name__, field) in UNREAD:
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.Name):
                    assert child.end_lineno is not None
                    assert child.end_col_offset is not None
                    start = child.lineno, column(child.lineno, child.col_offset)
                    yield child.id, *start, child.end_lineno, column(child.end_lineno, child.end_col_offset)
                if isinstance(child, ast.AST):
                    yield from visit(child)

    return set(visit(ast.parse(text)))


UNREAD = {
    ("FunctionDef", "returns"),
    ("AsyncFunctionDef", "returns"),
    ("Raise", "cause"),
    ("Assert", "msg"),
    ("match_case", "pattern"),
    ("TypeVar", "bound"),
    ("TypeVar", "default_value"),
    ("TypeAlias", "value"),
}


def names_by_us(text: str) -> set[tuple[str, int, int, int, int]]:
    return {
        (node.value, *span) for span, node in zip(places(text), nodes(text), strict=True) if isinstance(node, cst.Name)
    }


PROGRAM = '''\
"""äö"""
import a.b
def f(x, *y, z=b"", **k):
    """doc
  string"""
    s = "日本" ; t = x
    if (x and
        y):  # 😀
        return x + y \\
            + z
    elif  z :
        pass
    long = '\\
' + x
    for  i  in  range ( x ) : print(i, s, 'é', t)
\x0c
class Klasse(Base):
    größe: int = x
    @deco
    def m(self): return [größe for größe in self if größe]
'''


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("indent", ["    ", "\t", " \t"])
@pytest.mark.parametrize("ending", ["", "\n\n  # end", "\n\x0c\n", " \\\n\n"])
@pytest.mark.parametrize("start", ["", "\x0c\n", "if x:\n    pass\n"])
def test_layouts(newline: str, indent: str, ending: str, start: str) -> None:
    text = (start + PROGRAM.rstrip("\n") + ending).replace("    ", indent).replace("\n", newline)
    expected = names_by_python(text)
    assert len(expected) > 25
    assert names_by_us(text) >= expected


def test_byte_order_mark() -> None:
    read = decode(Path("x.py"), codecs.BOM_UTF8 + b"ab = cd\n")
    positions = Positions(read)
    assert [positions.span(at) for at in (2, 3)] == [(1, 1, 1, 3), (1, 6, 1, 8)]


def test_encoding() -> None:
    read = decode(Path("x.py"), "# coding: latin-1\nx = 'äöü', y\n".encode("latin-1"))
    assert Positions(read).span(5) == (2, 12, 2, 13)


STANDARD = Path(sysconfig.get_path("stdlib"))
SAMPLE = random.Random(2).sample(sorted(STANDARD.glob("*.py")) + sorted(STANDARD.glob("test/test_*.py")), 25)


@pytest.mark.parametrize("path", [path for path in SAMPLE if path.stat().st_size < 100_000], ids=lambda path: path.name)
def test_standard_library(path: Path) -> None:
    text = decode(path, path.read_bytes()).text
    try:
        missing = names_by_python(text) - names_by_us(text)
    except cst.ParserSyntaxError:
        pytest.skip("libcst does not read it")
    assert not missing


@st.composite
def programs(draw: st.DrawFn) -> str:
    """Programs in odd layouts, from pieces that hold names at odd places."""
    space = st.sampled_from(["", " ", "  ", "\t", " \\\n", "\x0c"])
    name = st.sampled_from(["a", "bb", "é", "名前", "x1"])
    string = st.sampled_from(["''", '"日本"', "'😀'", "'''\n  \n'''", "b'x'", "f'{a}'", "'\\\n'"])
    atom = st.one_of(name, string, st.sampled_from(["1", "()", "[]", "..."]))

    def grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        return st.one_of(
            st.tuples(inner, space, st.sampled_from(["+", "*", "==", "**", "<<"]), space, inner).map("".join),
            st.tuples(inner, st.sampled_from([" and ", " or ", " in ", " is not "]), inner).map("".join),
            st.tuples(st.just("("), space, inner, st.sampled_from(["", ",", "\n", " # c\n"]), st.just(")")).map(
                "".join
            ),
            st.tuples(name, st.just("("), space, inner, st.just(","), space, inner, st.just(")")).map("".join),
            st.tuples(st.just("["), inner, st.just(" for "), name, st.just(" in "), name, st.just("]")).map("".join),
            st.tuples(name, space, st.just("."), name, st.just("["), inner, st.just("]")).map("".join),
            st.tuples(st.just("(lambda "), name, st.just(":"), inner, st.just(")")).map("".join),
        )

    expression = st.recursive(atom, grow, max_leaves=6)
    lines = []
    for _ in range(draw(st.integers(1, 5))):
        form = draw(
            st.sampled_from(["{0}", "{1}={0}", "if {0} :\n{2}{0}\n{2}{1}", "{1}={0} ; {0}", "def {1}(z={0}):\n{2}{0}"])
        )
        lines.append(form.format(draw(expression), draw(name), draw(st.sampled_from(["  ", "\t", "    "]))))
        lines.append(draw(st.sampled_from(["", "# ü", "\x0c", "   "])))
    text = draw(st.sampled_from(["\n", "\r\n"])).join(lines)
    return text + draw(st.sampled_from(["", "\n", "  "]))


@settings(max_examples=120, deadline=None)
@given(programs())
def test_any_layout(text: str) -> None:
    try:
        expected = names_by_python(text)
        cst.parse_module(text)
    except (SyntaxError, cst.ParserSyntaxError):
        return
    assert names_by_us(text) >= expected


# ---------------------------------------------------------------- odd cases


@pytest.mark.skipif(sys.version_info[:2] == (3, 12), reason="its bound on recursion through C is a constant")
def test_deep_chains_have_positions() -> None:
    text = "x = " + "a + " * 1500 + "a\n" + "if a: b\n" + "elif a: b\n" * 1000
    positions = Positions(source(text))
    assert positions.span(3) == (1, 5, 1, 5 + 4 * 1500 + 1)


def test_a_file_that_has_changed_since() -> None:
    positions = Positions(source("x = 1\n"))
    assert positions.span(2) == (1, 1, 1, 2)
    assert positions.span(100) == (1, 1, 1, 1)
    with pytest.raises(Unreadable):
        Positions(source("x = (")).span(1)
    records = lower(cst.parse_module("x = 1\ny = 2\n"))
    for text in ("y = 2\n", "x = 1\n\nf(y) + 2\n", "x = (\n", "a; b\n"):
        positions = Positions(source(text), records)
        with contextlib.suppress(Unreadable):
            assert positions.span(4) == Positions(source(text)).span(4)


def test_the_file_has_a_number() -> None:
    text = "'doc'\n\nx = 1\n"
    assert places(text)[:2] == [(1, 1, 1, 1), (3, 1, 3, 6)]


ODD = """
(
  a
) ; b = 1 ; c


# comment
(
d) = e; f
if g: h; i
'''doc'''; j
pass; k
@l

# comment
@m
def n(): o
type p = q
"""


def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that libcst gets to see from now on."""
    seen: list[str] = []

    def parse(source: Source) -> cst.Module:
        seen.append(source.text)
        return syntax.parse(source)

    monkeypatch.setattr(module, "parse", parse)
    return seen


@pytest.mark.parametrize("text", [ODD, ODD.replace("type p = q\n", ""), PROGRAM, "", "pass", "\n\n'doc'\nx"])
def test_top_level_statements(text: str) -> None:
    assert len(places(text)) == len(nodes(text))


def test_only_the_statement_in_question_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "'doc'\nimport a\n\n@b  # c\ndef d():\n    pass  # e\n\n\nf; g; '''h\ni'''; j\npass\n"
    positions = Positions(source(text), lower(cst.parse_module(text)))
    seen = parsed(monkeypatch)
    assert positions.span(3) == (5, 1, 5, 9)
    assert positions.span(4) == (4, 2, 4, 3)
    assert seen == ["@b  # c\ndef d():\n    pass  # e\n"]
    assert positions.span(9) == (10, 7, 10, 8)
    assert seen[1:] == ["f; g; '''h\ni'''; j\n"]


def test_what_python_and_libcst_see_differently_is_parsed_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "a\n'b' f'c'\nd\n"  # not a record, but not told from `f'c'` by Python's parser
    positions = Positions(source(text), lower(cst.parse_module(text)))
    seen = parsed(monkeypatch)
    assert positions.span(3) == (3, 1, 3, 2)
    assert seen == [text]
    text = "@\\\na\ndef b(): c\nd\n"  # its decorator seems to start a line of its own
    positions = Positions(source(text), lower(cst.parse_module(text)))
    assert positions.span(5) == (4, 1, 4, 2)
    del seen[:]
    assert positions.span(2) == (2, 1, 2, 2)
    assert seen == ["a\ndef b(): c\n", text]


# ---------------------------------------------------------------- large files


@pytest.mark.skipif(not can_fork(), reason="there can be no other process")
def test_a_large_text_is_parsed_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "x = [\n" + "    a,\n" * 100 + "]\n"
    expected = places(text)
    monkeypatch.setattr(module, "LARGE", 500)
    seen = parsed(monkeypatch)
    assert places(text) == expected
    assert seen == []
    monkeypatch.setattr(module, "located", lambda source: os.kill(os.getpid(), signal.SIGKILL))
    with pytest.raises(Unreadable):
        Positions(source(text)).span(3)
