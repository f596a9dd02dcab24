from __future__ import annotations

import random
import sysconfig
import warnings
from pathlib import Path
from typing import Any

import libcst as cst
import msgspec
import pytest

from dpcheck.program import records as r
from dpcheck.program.intake import ENCODER, MODULES
from dpcheck.program.lower import lower
from dpcheck.source.stack import deep


def module(text: str) -> r.Module:
    return lower(cst.parse_module(text))


def statement(text: str) -> Any:
    (found,) = module(text).body
    return found


def expression(text: str) -> Any:
    found = statement(f"x = {text}")
    return found.value


def plain(record: Any) -> Any:
    """A record as nested tuples, without the numbers: ("Call", func, args)."""
    if isinstance(record, msgspec.Struct):
        fields = [name for name in record.__struct_fields__ if name not in ("at", "nodes")]
        return (type(record).__name__, *(plain(getattr(record, name)) for name in fields))
    return tuple(map(plain, record)) if isinstance(record, tuple) else record


def name(text: str) -> tuple[str, str]:
    return ("Name", text)


A, B, C, D = map(name, "abcd")


def const(value: object) -> tuple[str, object]:
    return ("Const", value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", A),
        ("True", const(True)),
        ("None", const(None)),
        ("ﬁ", name("fi")),
        ("1_000", const(1000)),
        ("0xFF", const(255)),
        ("0o17", const(15)),
        ("00", const(0)),
        ("1_0.5e1", const(105.0)),
        ("18446744073709551615", const(2**64 - 1)),
        ("18446744073709551616", ("Opaque", ())),
        ("9" * 5000, ("Opaque", ())),
        ("1j", ("Opaque", ())),
        ("...", ("Opaque", ())),
        ("'a'", const("a")),
        ('"""a\n"b"""', const('a\n"b')),
        ("'''a\r\nb\rc'''", const("a\nb\nc")),
        (r"'\n\x41\u00e4\N{BULLET}\d'", const("\nAä•\\d")),
        (r"r'\n'", const("\\n")),
        (r"R'\''", const("\\'")),
        ("u'a'", const("a")),
        ("b'a\\n'", ("Bytes", b"a\n")),
        ("rb'a\\n'", ("Bytes", b"a\\n")),
        ("'a' \"b\" r'\\c'", const("ab\\c")),
        ("b'a' b'b'", ("Bytes", b"ab")),
        (r"'\ud800'", ("Opaque", ())),
        ("'😀'", const("😀")),
        ("''", const("")),
        ("f'a{b}c'", ("Format", (const("a"), B, const("c")))),
        ("f'{{}}{a!r:>10}'", ("Format", (const("{}"), ("Field", A, "r", (const(">10"),))))),
        ("f'{a!s}{a:}'", ("Format", (("Field", A, "s", ()), A))),
        (r"f'\n{a}'", ("Format", (const("\n"), A))),
        (r"rf'\n{a}'", ("Format", (const("\\n"), A))),
        ("f'{a:>{b}.{c!r}}'", ("Format", (("Field", A, "", (const(">"), B, const("."), ("Field", C, "r", ()))),))),
        ("f'{a:{{b}}}'", ("Format", (("Field", A, "", (("Seq", "set", (B,)),)),))),
        (
            "f'{a = }{ b=:x}'",
            ("Format", (const("a = "), ("Field", A, "r", ()), const(" b="), ("Field", B, "", (const("x"),)))),
        ),
        ("f''", ("Format", ())),
        ("'a' f'{b}' 'c'", ("Format", (const("a"), B, const("c")))),
        ("a.b", ("Attr", A, "b")),
        ("a[b]", ("Item", A, B)),
        ("a[b:c]", ("Item", A, ("Slice", B, C, None))),
        ("a[::d]", ("Item", A, ("Slice", None, None, D))),
        ("a[b, c]", ("Item", A, ("Seq", "tuple", (B, C)))),
        ("a[b,]", ("Item", A, ("Seq", "tuple", (B,)))),
        ("a[*b]", ("Item", A, ("Seq", "tuple", (("Star", B),)))),
        ("a[b:c, d]", ("Item", A, ("Seq", "tuple", (("Slice", B, C, None), D)))),
        ("a()", ("Call", A, ())),
        (
            "a(b, c=d, *b, **c)",
            (
                "Call",
                A,
                (("Arg", B, None, ""), ("Arg", D, "c", ""), ("Arg", B, None, "*"), ("Arg", C, None, "**")),
            ),
        ),
        ("a.b(c)[d]", ("Item", ("Call", ("Attr", A, "b"), (("Arg", C, None, ""),)), D)),
        ("a + b * c", ("Binary", "+", A, ("Binary", "*", B, C))),
        ("a - b - c", ("Binary", "-", ("Binary", "-", A, B), C)),
        ("a ** b ** c", ("Binary", "**", A, ("Binary", "**", B, C))),
        ("a // b @ c", ("Binary", "@", ("Binary", "//", A, B), C)),
        ("-a", ("Unary", "-", A)),
        ("not ~a", ("Unary", "not", ("Unary", "~", A))),
        ("a < b is not c not in d", ("Compare", A, ("<", "is not", "not in"), (B, C, D))),
        ("a and b and c or d", ("Logic", "or", ("Logic", "and", ("Logic", "and", A, B), C), D)),
        ("a if b else c", ("Cond", B, A, C)),
        ("()", ("Seq", "tuple", ())),
        ("a, *b", ("Seq", "tuple", (A, ("Star", B)))),
        ("[a]", ("Seq", "list", (A,))),
        ("{a, *b}", ("Seq", "set", (A, ("Star", B)))),
        ("{}", ("Dict", ())),
        ("{a: b, **c}", ("Dict", (("DictItem", A, B), ("DictItem", None, C)))),
        ("[a for b in c if d if a]", ("Comp", "list", None, A, (("Clause", B, C, (D, A)),))),
        ("{a for b in c async for d in a}", ("Comp", "set", None, A, (("Clause", B, C, ()), ("Clause", D, A, ())))),
        ("(a for b, c in d)", ("Comp", "generator", None, A, (("Clause", ("Seq", "tuple", (B, C)), D, ()),))),
        ("{a: b for c in d}", ("Comp", "dict", A, B, (("Clause", C, D, ()),))),
        ("lambda: a", ("Lambda", (), A)),
        (
            "lambda a, /, b=c, *d, e, **f: a",
            (
                "Lambda",
                (
                    ("Param", "a", "pos", None, None),
                    ("Param", "b", "any", C, None),
                    ("Param", "d", "*", None, None),
                    ("Param", "e", "key", None, None),
                    ("Param", "f", "**", None, None),
                ),
                A,
            ),
        ),
        ("(a := b)", ("Walrus", A, B)),
    ],
)
def test_expressions(text: str, expected: object) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert plain(expression(text)) == expected


@pytest.mark.skipif(not hasattr(cst, "TemplatedString"), reason="this libcst does not read it")
def test_newer_syntax() -> None:
    assert plain(expression("t'{a}{b:{c}}'")) == ("Opaque", (A, B, C))


def do(value: object) -> tuple[str, object]:
    return ("Do", value)


CALL = do(("Call", A, ()))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a()", CALL),
        ("a", do(A)),
        ("a = b = c", ("Assign", (A, B), C, None)),
        ("a, *b = c", ("Assign", (("Seq", "tuple", (A, ("Star", B))),), C, None)),
        ("a: b = c", ("Assign", (A,), C, B)),
        ("a.b: c", ("Assign", (("Attr", A, "b"),), None, C)),
        ("a[b] //= c", ("Update", ("Item", A, B), "//", C)),
        ("a @= b", ("Update", A, "@", B)),
        ("raise", ("Raise", None)),
        ("raise a from b", ("Raise", A)),
        ("assert a, b", ("Assert", A)),
        ("del a, b.c", ("Delete", (A, ("Attr", B, "c")))),
        ("del (a)", ("Delete", (A,))),
        ("del [a, b]", ("Delete", (A, B))),
        ("import a.b as c, d", ("Import", (("Alias", "a.b", "c"), ("Alias", "d", None)))),
        ("from a.b import c as d", ("ImportFrom", "a.b", 0, (("Alias", "c", "d"),))),
        ("from .. import c", ("ImportFrom", "", 2, (("Alias", "c", None),))),
        ("from .a import *", ("ImportFrom", "a", 1, ())),
        ("global a, b", ("Scope", "global", ("a", "b"))),
        ("type a = b", ("Assign", (A,), ("Opaque", ()), None)),
        ("if a: a()", ("If", A, (CALL,), ())),
        ("if a: pass\nelif b: a()\nelse: a()", ("If", A, (), (("If", B, (CALL,), (CALL,)),))),
        ("for a in b:\n  break\nelse:\n  a()", ("For", A, B, (("Break",),), (CALL,))),
        ("while a:\n  continue", ("While", A, (("Continue",),), ())),
        ("with a as b, c: a()", ("With", (("WithItem", A, B), ("WithItem", C, None)), (CALL,))),
        (
            "try: a()\nexcept b as c: a()\nexcept: pass\nelse: a()\nfinally: a()",
            ("Try", (CALL,), (("Handler", B, "c", (CALL,)), ("Handler", None, None, ())), (CALL,), (CALL,)),
        ),
        ("try: pass\nexcept* a: a()", ("Try", (), (("Handler", A, None, (CALL,)),), (), ())),
        (
            "@a\n@b(c)\ndef f(a, b: c = d): a()",
            (
                "Function",
                "f",
                (("Param", "a", "any", None, None), ("Param", "b", "any", D, C)),
                (CALL,),
                (A, ("Call", B, (("Arg", C, None, ""),))),
                (),
                False,
                False,
            ),
        ),
        (
            "@a\nclass b(c, *d, metaclass=a, **b): a()",
            (
                "Class",
                "b",
                (("Arg", C, None, ""), ("Arg", D, None, "*"), ("Arg", A, "metaclass", ""), ("Arg", B, None, "**")),
                (CALL,),
                (A,),
            ),
        ),
    ],
)
def test_statements(text: str, expected: object) -> None:
    assert plain(statement(text)) == expected


def test_what_has_no_effect_is_left_out() -> None:
    assert module('"""doc"""\n1\n...\npass\n"a" "b"\nb"x"').body == ()
    assert len(module("f'{a()}'\na").body) == 2


@pytest.mark.parametrize(
    ("pattern", "values", "binds", "irrefutable"),
    [
        ("1", (const(1),), (), False),
        ("'a' | b.c | None", (const("a"), ("Attr", B, "c"), const(None)), (), False),
        ("-1", (("Unary", "-", const(1)),), (), False),
        ("_", None, (), True),
        ("x", None, ("x",), True),
        ("1 as x", (const(1),), ("x",), False),
        ("1 | _", None, (), True),
        ("[a, *b]", None, ("a", "b"), False),
        ("(a, _), *_", None, ("a",), False),
        ("{'k': a, **b}", None, ("a", "b"), False),
        ("A(a, x=[b]) as c", None, ("a", "b", "c"), False),
        ("[a] | [a, _]", None, ("a",), False),
    ],
)
def test_patterns(pattern: str, values: object, binds: tuple[str, ...], irrefutable: bool) -> None:
    found = statement(f"match a:\n  case {pattern} if d: a()")
    (case,) = found.cases
    assert (plain(case.values), case.binds, case.irrefutable) == (values, binds, irrefutable)
    assert (plain(found.subject), plain(case.guard), plain(case.body)) == (A, D, (CALL,))


# ---------------------------------------------------------------- scopes

BINDING = """
def f(p, q=(w1 := 1)):
    global g
    a, (b, *c) = d.e = h[i] = 1
    j: int
    k += 1
    g = 1
    for l in m: n = 1
    with o as r, s as (t, u): pass
    try: pass
    except E as v: w = 1
    import x.y, z as aa
    from ab import ac as ad, ae
    from af import *
    def ag():
        nonlocal k
        ah = k = 1
        yield
    class ai(aj):
        ak = 1
    [al for am in an if (ao := am)]
    lambda ap: (aq := ap)
    match ar:
        case [as_, {"x": at}]: pass
    del au
    if (av := 1): pass
    while True: aw = 1
    p = 2
    type ax = int
"""


def test_locals() -> None:
    found = statement(BINDING)
    expected = "a b c j k l n r t u v w x aa ad ae ag ai ao as_ at au av aw p ax"
    assert sorted(found.locals) == sorted(expected.split())
    assert not found.generator
    inner = next(each for each in found.body if isinstance(each, r.Function))
    assert inner.locals == ("ah",)
    assert inner.generator


@pytest.mark.parametrize(
    ("body", "generator"),
    [
        ("yield", True),
        ("x = yield from a", True),
        ("if a:\n    for b in c:\n      d((yield))", True),
        ("def g(): yield", False),
        ("class A:\n    def g(): yield", False),
        ("lambda: (yield)", False),
        ("return 1", False),
    ],
)
def test_generators(body: str, generator: bool) -> None:
    assert statement(f"async def f():\n  {body}").generator is generator
    assert statement(f"async def f():\n  {body}").is_async


def test_yield() -> None:
    found = statement("def f():\n  yield\n  yield a\n  yield from b")
    assert plain(found.body) == (
        do(("Yield", None, False)),
        do(("Yield", A, False)),
        do(("Yield", B, True)),
    )
    assert plain(statement("async def f(): return await a").body) == (("Return", ("Await", A)),)


# ---------------------------------------------------------------- numbers


def numbers(record: Any) -> list[int]:
    found = [record.at] if isinstance(record, r.Record) else []
    for field in record.__struct_fields__ if isinstance(record, msgspec.Struct) else ():
        value = getattr(record, field)
        for child in value if isinstance(value, tuple) else (value,):
            found += numbers(child)
    return found


def check_numbers(text: str) -> None:
    tree = cst.parse_module(text)
    nodes: list[cst.CSTNode] = []
    found = lower(tree, nodes)
    assert found == lower(cst.parse_module(text))
    assert found.nodes == len(nodes)
    given = [at for record in found.body for at in numbers(record)]
    assert len(given) == len(set(given))
    assert set(given) <= set(range(found.nodes))


def test_numbers() -> None:
    check_numbers(BINDING)
    check_numbers("x = f'{a:{b}}' 'c' f'{d=}'\na[b, c:d](e)(*f)\nmatch a:\n  case 1 | b.c: pass\n")
    first, second = module("a = b\nc.d(e)").body
    assert (first.at, second.at) == (1, 4)  # the number 0 is the file's
    assert plain(second) == do(("Call", ("Attr", C, "d"), (("Arg", name("e"), None, ""),)))
    assert numbers(second) == [4, 5, 6, 7, 8, 9]


# ---------------------------------------------------------------- size


def depth(record: Any, field: str) -> int:
    levels = 0
    while hasattr(record, field):
        record, levels = getattr(record, field), levels + 1
    return levels


def test_long_chains() -> None:
    """In loops: this thread has 1,000 frames."""
    tree = deep(lambda: cst.parse_module("x = " + "a + " * 1500 + "a\ny = " + "a and " * 1500 + "a\n"))
    first, second = lower(tree).body
    assert depth(first.value, "left") == depth(second.value, "left") == 1500  # type: ignore[union-attr]
    tree = deep(lambda: cst.parse_module("x" + ".a" * 1500 + "\n"))
    assert depth(lower(tree).body[0].value, "value") == 1500  # type: ignore[union-attr]
    tree = cst.parse_module("x = (" + "'ab'\n" * 1500 + ")\n")
    assert lower(tree).body[0].value.value == "ab" * 1500  # type: ignore[union-attr]
    tree = deep(lambda: cst.parse_module("if a: b\n" + "elif a: b\n" * 1500 + "else: c\n"))
    found, levels = lower(tree).body, 0
    while isinstance(found[0], r.If):
        found, levels = found[0].orelse, levels + 1
    assert levels == 1501
    assert plain(found) == (do(C),)


def test_deep_records_can_be_stored() -> None:
    def stored(text: str) -> r.Module:
        return deep(lambda: MODULES.decode(ENCODER.encode(lower(cst.parse_module(text)))))

    assert stored("x = " + "a + " * 1400 + "a\n").nodes == 2804
    assert stored("x = " + "not " * 1400 + "a\n").nodes == 1404
    assert stored("x = " + "(f(a, [" * 60 + "]))" * 60).nodes == 363


STANDARD = Path(sysconfig.get_path("stdlib"))
FILES = [
    *STANDARD.glob("*.py"),
    *STANDARD.glob("asyncio/*.py"),
    *STANDARD.glob("email/*.py"),
    *STANDARD.glob("test/test_[a-g]*.py"),
]


@pytest.mark.parametrize("path", random.Random(3).sample(sorted(FILES), 60), ids=lambda path: path.name)
def test_standard_library(path: Path) -> None:
    try:
        tree = cst.parse_module(path.read_bytes())
    except cst.ParserSyntaxError:
        pytest.skip("libcst does not read it")
    found = lower(tree)
    assert MODULES.decode(ENCODER.encode(found)) == found
    assert found.body or path.stat().st_size < 1000
