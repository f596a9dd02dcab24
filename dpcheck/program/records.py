"""The program as small immutable records: what the interpreter executes and what the cache stores.

A record keeps `at`, the preorder number of the libcst node that it came from (see `dpcheck.program.lower`). No record
has the number 0, which stands for the file. Lines and columns are not stored: `dpcheck.source.positions` computes them
for the few records that a report prints.

Surface forms that mean the same are one record: an annotated assignment is an `Assign`, `async for` is a `For`, an
f-string is a `Format`. A form that the interpreter has no use for becomes `Opaque`, whose value is unknown.
"""

from __future__ import annotations

from typing import Union

import msgspec


class Record(msgspec.Struct, frozen=True, array_like=True, gc=False):
    at: int


# ---------------------------------------------------------------- expressions


class Name(Record, frozen=True, array_like=True, tag="Name"):
    id: str


class Const(Record, frozen=True, array_like=True, tag="Const"):
    """A literal. Ellipsis, complex and over-long integers become `Opaque`; concatenated strings are joined."""

    value: bool | int | float | str | None


class Bytes(Record, frozen=True, array_like=True, tag="Bytes"):
    value: bytes


class Format(Record, frozen=True, array_like=True, tag="Format"):
    """An f-string: the literal parts are `Const`, the replaced ones are expressions, or a `Field` of one."""

    parts: tuple[Expr, ...]


class Field(Record, frozen=True, array_like=True, tag="Field"):
    """`{value!conversion:spec}`; `conversion` is "", "r", "s" or "a", and `spec` has parts as an f-string has."""

    value: Expr
    conversion: str
    spec: tuple[Expr, ...]


class Attr(Record, frozen=True, array_like=True, tag="Attr"):
    value: Expr
    name: str


class Item(Record, frozen=True, array_like=True, tag="Item"):
    """`value[index]`; several indices are a `Seq` of kind "tuple"."""

    value: Expr
    index: Expr


class Slice(Record, frozen=True, array_like=True, tag="Slice"):
    lower: Expr | None
    upper: Expr | None
    step: Expr | None


class Arg(Record, frozen=True, array_like=True, tag="Arg"):
    """`at` is the number of the argument (keyword and value together). `star` is "", "*" or "**"."""

    value: Expr
    keyword: str | None = None
    star: str = ""


class Call(Record, frozen=True, array_like=True, tag="Call"):
    func: Expr
    args: tuple[Arg, ...]


class Binary(Record, frozen=True, array_like=True, tag="Binary"):
    """`op` as written: + - * / // % ** @ & | ^ << >>."""

    op: str
    left: Expr
    right: Expr


class Unary(Record, frozen=True, array_like=True, tag="Unary"):
    """`op`: - + ~ not."""

    op: str
    operand: Expr


class Compare(Record, frozen=True, array_like=True, tag="Compare"):
    """`left ops[0] rights[0] ops[1] rights[1] …`; ops: == != < <= > >= in "not in" is "is not"."""

    left: Expr
    ops: tuple[str, ...]
    rights: tuple[Expr, ...]


class Logic(Record, frozen=True, array_like=True, tag="Logic"):
    """`op`: and, or (binary: longer chains nest to the left)."""

    op: str
    left: Expr
    right: Expr


class Cond(Record, frozen=True, array_like=True, tag="Cond"):
    """`body if test else orelse`."""

    test: Expr
    body: Expr
    orelse: Expr


class Seq(Record, frozen=True, array_like=True, tag="Seq"):
    """A tuple, list or set display; as an assignment target its items are targets."""

    kind: str
    items: tuple[Expr, ...]


class Star(Record, frozen=True, array_like=True, tag="Star"):
    value: Expr


class DictItem(Record, frozen=True, array_like=True, tag="DictItem"):
    """`key: value`, or `**value` when key is None."""

    key: Expr | None
    value: Expr


class Dict(Record, frozen=True, array_like=True, tag="Dict"):
    items: tuple[DictItem, ...]


class Clause(Record, frozen=True, array_like=True, tag="Clause"):
    """`for target in iter if tests…` of a comprehension."""

    target: Expr
    iter: Expr
    tests: tuple[Expr, ...]


class Comp(Record, frozen=True, array_like=True, tag="Comp"):
    """A comprehension; `kind`: list, set, dict, generator. `key` is set for dict only."""

    kind: str
    key: Expr | None
    element: Expr
    clauses: tuple[Clause, ...]


class Param(Record, frozen=True, array_like=True, tag="Param"):
    """`kind`: "pos" (positional only), "any", "key" (keyword only), "*" or "**"."""

    name: str
    kind: str
    default: Expr | None = None
    annotation: Expr | None = None


class Lambda(Record, frozen=True, array_like=True, tag="Lambda"):
    params: tuple[Param, ...]
    body: Expr


class Walrus(Record, frozen=True, array_like=True, tag="Walrus"):
    target: Expr
    value: Expr


class Yield(Record, frozen=True, array_like=True, tag="Yield"):
    value: Expr | None
    from_: bool = False


class Await(Record, frozen=True, array_like=True, tag="Await"):
    value: Expr


class Opaque(Record, frozen=True, array_like=True, tag="Opaque"):
    """An expression whose value is unknown; `parts` are its operands, evaluated for their effects."""

    parts: tuple[Expr, ...] = ()


Expr = Union[
    Name, Const, Bytes, Format, Field, Attr, Item, Slice, Call, Binary, Unary, Compare, Logic, Cond, Seq, Star, Dict,
    Comp, Lambda, Walrus, Yield, Await, Opaque,
]  # fmt: skip


# ---------------------------------------------------------------- statements


class Do(Record, frozen=True, array_like=True, tag="Do"):
    """An expression statement."""

    value: Expr


class Assign(Record, frozen=True, array_like=True, tag="Assign"):
    """`targets[0] = targets[1] = … = value`. An annotation without a value has value None and one target."""

    targets: tuple[Expr, ...]
    value: Expr | None
    annotation: Expr | None = None


class Update(Record, frozen=True, array_like=True, tag="Update"):
    """`target op= value`; `op` as in `Binary`."""

    target: Expr
    op: str
    value: Expr


class Return(Record, frozen=True, array_like=True, tag="Return"):
    value: Expr | None


class Raise(Record, frozen=True, array_like=True, tag="Raise"):
    value: Expr | None


class Break(Record, frozen=True, array_like=True, tag="Break"):
    pass


class Continue(Record, frozen=True, array_like=True, tag="Continue"):
    pass


class Delete(Record, frozen=True, array_like=True, tag="Delete"):
    targets: tuple[Expr, ...]


class Assert(Record, frozen=True, array_like=True, tag="Assert"):
    test: Expr


class If(Record, frozen=True, array_like=True, tag="If"):
    test: Expr
    body: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...]


class For(Record, frozen=True, array_like=True, tag="For"):
    target: Expr
    iter: Expr
    body: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...]


class While(Record, frozen=True, array_like=True, tag="While"):
    test: Expr
    body: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...]


class WithItem(Record, frozen=True, array_like=True, tag="WithItem"):
    value: Expr
    target: Expr | None


class With(Record, frozen=True, array_like=True, tag="With"):
    items: tuple[WithItem, ...]
    body: tuple[Stmt, ...]


class Handler(Record, frozen=True, array_like=True, tag="Handler"):
    caught: Expr | None
    name: str | None
    body: tuple[Stmt, ...]


class Try(Record, frozen=True, array_like=True, tag="Try"):
    body: tuple[Stmt, ...]
    handlers: tuple[Handler, ...]
    orelse: tuple[Stmt, ...]
    final: tuple[Stmt, ...]


class MatchCase(Record, frozen=True, array_like=True, tag="MatchCase"):
    """`values` are the literal or dotted alternatives of the pattern (None: the pattern is something else).

    `binds` are the names that the pattern binds; a bare `_` or name is a wildcard: values None, irrefutable.
    """

    values: tuple[Expr, ...] | None
    binds: tuple[str, ...]
    irrefutable: bool
    guard: Expr | None
    body: tuple[Stmt, ...]


class Match(Record, frozen=True, array_like=True, tag="Match"):
    subject: Expr
    cases: tuple[MatchCase, ...]


class Function(Record, frozen=True, array_like=True, tag="Function"):
    """`at` is the `def` statement; `locals` are the names bound in the body that are not global or nonlocal.

    `generator` is True when the body itself contains a yield.
    """

    name: str
    params: tuple[Param, ...]
    body: tuple[Stmt, ...]
    decorators: tuple[Expr, ...]
    locals: tuple[str, ...]
    generator: bool
    is_async: bool = False


class Class(Record, frozen=True, array_like=True, tag="Class"):
    name: str
    bases: tuple[Arg, ...]
    body: tuple[Stmt, ...]
    decorators: tuple[Expr, ...]


class Alias(Record, frozen=True, array_like=True, tag="Alias"):
    name: str
    asname: str | None


class Import(Record, frozen=True, array_like=True, tag="Import"):
    names: tuple[Alias, ...]


class ImportFrom(Record, frozen=True, array_like=True, tag="ImportFrom"):
    """`from <level dots><module> import names`; `names` is empty for a star import."""

    module: str
    level: int
    names: tuple[Alias, ...]


class Scope(Record, frozen=True, array_like=True, tag="Scope"):
    """A `global` or `nonlocal` statement."""

    kind: str
    names: tuple[str, ...]


Stmt = Union[
    Do, Assign, Update, Return, Raise, Break, Continue, Delete, Assert, If, For, While, With, Try, Match, Function,
    Class, Import, ImportFrom, Scope,
]  # fmt: skip


class Module(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One lowered file. `nodes` is how many numbers were given out, that of the file included: every `at` is below."""

    body: tuple[Stmt, ...]
    nodes: int
