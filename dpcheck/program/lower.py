"""A libcst tree as records, in one pass.

One function a node class, found in a table; each reads the fields that carry meaning and nothing else. Records are
numbered in the order in which they are entered, from 1, so that lowering the same text twice gives the same numbers:
that is how `dpcheck.source.positions` finds the node behind a record again. The number 0 is the file's.

Left-nested chains (operators, attributes, calls, subscripts), `elif` chains and implicitly joined strings are walked in
loops, since generated code makes them thousands long. All other nesting is bounded by `dpcheck.source.nesting` before a
text is parsed.

Statements without an effect (`pass`, docstrings, `...`) are left out. Type parameters and return annotations are not
lowered.
"""

from __future__ import annotations

import ast
import unicodedata
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import libcst as cst

from dpcheck.program import records as r

BINARY: dict[type, str] = {
    cst.Add: "+",
    cst.Subtract: "-",
    cst.Multiply: "*",
    cst.Divide: "/",
    cst.FloorDivide: "//",
    cst.Modulo: "%",
    cst.Power: "**",
    cst.MatrixMultiply: "@",
    cst.BitAnd: "&",
    cst.BitOr: "|",
    cst.BitXor: "^",
    cst.LeftShift: "<<",
    cst.RightShift: ">>",
}
UPDATE: dict[type, str] = {
    cst.AddAssign: "+",
    cst.SubtractAssign: "-",
    cst.MultiplyAssign: "*",
    cst.DivideAssign: "/",
    cst.FloorDivideAssign: "//",
    cst.ModuloAssign: "%",
    cst.PowerAssign: "**",
    cst.MatrixMultiplyAssign: "@",
    cst.BitAndAssign: "&",
    cst.BitOrAssign: "|",
    cst.BitXorAssign: "^",
    cst.LeftShiftAssign: "<<",
    cst.RightShiftAssign: ">>",
}
UNARY: dict[type, str] = {cst.Minus: "-", cst.Plus: "+", cst.BitInvert: "~", cst.Not: "not"}
COMPARE: dict[type, str] = {
    cst.Equal: "==",
    cst.NotEqual: "!=",
    cst.LessThan: "<",
    cst.LessThanEqual: "<=",
    cst.GreaterThan: ">",
    cst.GreaterThanEqual: ">=",
    cst.In: "in",
    cst.NotIn: "not in",
    cst.Is: "is",
    cst.IsNot: "is not",
}
SINGLETONS: dict[str, bool | None] = {"True": True, "False": False, "None": None}
MAX_INTEGER = 2**64 - 1  # what msgpack can hold


class Scope:
    """The names bound in the function (or class, or module) being lowered, and whether it yields."""

    __slots__ = ("bound", "generator", "outer")

    def __init__(self) -> None:
        self.bound: dict[str, None] = {}
        self.outer: set[str] = set()
        self.generator = False


class State:
    """`nodes[at]` is the node of the record numbered `at`."""

    __slots__ = ("nodes", "scope")

    def __init__(self, nodes: list[cst.CSTNode]) -> None:
        self.nodes = nodes
        self.scope = Scope()

    def number(self, node: cst.CSTNode) -> int:
        at = len(self.nodes)
        self.nodes.append(node)
        return at


def lower(tree: cst.Module, nodes: list[cst.CSTNode] | None = None) -> r.Module:
    """The records of `tree`. When an empty list `nodes` is given, `nodes[at]` becomes the node of record `at`."""
    state = State([] if nodes is None else nodes)
    state.number(tree)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # literals with invalid escapes
        body = statements(state, tree.body)
    return r.Module(body, len(state.nodes))


def expression(state: State, node: Any) -> r.Expr:
    return EXPRESSIONS[type(node)](state, node)


def optional(state: State, node: Any) -> r.Expr | None:
    return None if node is None else EXPRESSIONS[type(node)](state, node)


def identifier(text: str) -> str:
    """Python compares identifiers in normal form KC."""
    return text if text.isascii() else unicodedata.normalize("NFKC", text)


# ---------------------------------------------------------------- names and literals


def lower_name(state: State, node: cst.Name) -> r.Expr:
    at = len(state.nodes)
    state.nodes.append(node)
    text = node.value
    if text in SINGLETONS:
        return r.Const(at, SINGLETONS[text])
    return r.Name(at, text if text.isascii() else identifier(text))


def lower_integer(state: State, node: cst.Integer) -> r.Expr:
    at = state.number(node)
    try:
        value = int(node.value, 0)
    except ValueError:  # longer than sys.get_int_max_str_digits()
        return r.Opaque(at)
    return r.Const(at, value) if value <= MAX_INTEGER else r.Opaque(at)


def lower_float(state: State, node: cst.Float) -> r.Expr:
    return r.Const(state.number(node), float(node.value))


def lower_opaque(state: State, node: cst.CSTNode) -> r.Expr:
    return r.Opaque(state.number(node))


def storable(text: str) -> bool:
    """False for lone surrogates, which no encoding can hold."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def literal(prefix: str, quote: str, raw: str) -> str | bytes | None:
    """The value of a string literal, or None when it has none that can be stored."""
    if "\r" in raw:  # a literal holds the line feeds that Python reads, however the file ends its lines
        raw = raw.replace("\r\n", "\n").replace("\r", "\n")
    value: str | bytes
    if "\\" not in raw or "r" in prefix:
        if "b" not in prefix:
            value = raw
        elif raw.isascii():
            value = raw.encode()
        else:
            return None
    else:
        try:
            value = ast.literal_eval(f"{'b' if 'b' in prefix else ''}{quote}{raw}{quote}")
        except (SyntaxError, ValueError):
            return None
    return value if isinstance(value, bytes) or storable(value) else None


def simple_string(node: cst.SimpleString) -> str | bytes | None:
    text = node.value
    if text[0] in "\"'":
        prefix = ""
    else:
        start = min(at for at in (text.find('"'), text.find("'")) if at >= 0)
        prefix, text = text[:start].lower(), text[start:]
    quote = text[:3] if len(text) >= 6 and text[:3] in ('"""', "'''") else text[0]
    return literal(prefix, quote, text[len(quote) : -len(quote)])


def lower_string(state: State, node: cst.SimpleString) -> r.Expr:
    at = state.number(node)
    value = simple_string(node)
    if value is None:
        return r.Opaque(at)
    return r.Bytes(at, value) if isinstance(value, bytes) else r.Const(at, value)


def format_parts(state: State, node: cst.FormattedString) -> list[r.Expr]:
    prefix = node.start.rstrip("\"'").lower()
    parts: list[r.Expr] = []
    pieces(state, node.parts, prefix, node.end, parts)
    return parts


def pieces(state: State, nodes: Iterable[Any], prefix: str, quote: str, parts: list[r.Expr]) -> None:
    for node in nodes:
        if type(node) is cst.FormattedStringText:
            value = literal(prefix, quote, node.value.replace("{{", "{").replace("}}", "}"))
            at = state.number(node)
            parts.append(r.Const(at, value) if isinstance(value, str) else r.Opaque(at))
            continue
        conversion = node.conversion or ""
        if node.equal is not None:
            code = cst.Module(()).code_for_node
            text = code(node.whitespace_before_expression) + code(node.expression) + code(node.equal)
            parts.append(r.Const(state.number(node), text) if storable(text) else r.Opaque(state.number(node)))
            if not conversion and node.format_spec is None:
                conversion = "r"
        if not conversion and not node.format_spec:
            parts.append(expression(state, node.expression))
            continue
        at = state.number(node)
        replaced = expression(state, node.expression)
        spec: list[r.Expr] = []
        pieces(state, node.format_spec or (), prefix, quote, spec)
        parts.append(r.Field(at, replaced, conversion, tuple(spec)))


def lower_format(state: State, node: cst.FormattedString) -> r.Expr:
    at = state.number(node)
    return r.Format(at, tuple(format_parts(state, node)))


def template_parts(state: State, nodes: Iterable[Any]) -> list[r.Expr]:
    parts: list[r.Expr] = []
    for node in nodes:
        if type(node) is cst.TemplatedStringExpression:
            parts.append(expression(state, node.expression))
            if node.format_spec is not None:
                parts += template_parts(state, node.format_spec)
    return parts


def lower_template(state: State, node: cst.TemplatedString) -> r.Expr:
    at = state.number(node)
    return r.Opaque(at, tuple(template_parts(state, node.parts)))


def lower_concatenated(state: State, node: cst.ConcatenatedString) -> r.Expr:
    at = state.number(node)
    strings: list[Any] = []
    rest: Any = node
    while type(rest) is cst.ConcatenatedString:
        strings.append(rest.left)
        rest = rest.right
    strings.append(rest)
    if all(type(string) is cst.SimpleString for string in strings):
        values = [simple_string(string) for string in strings]
        texts = [value for value in values if isinstance(value, str)]
        if len(texts) == len(values):
            return r.Const(at, "".join(texts))
        chunks = [value for value in values if isinstance(value, bytes)]
        return r.Bytes(at, b"".join(chunks)) if len(chunks) == len(values) else r.Opaque(at)
    parts: list[r.Expr] = []
    for string in strings:
        if type(string) is cst.FormattedString:
            parts += format_parts(state, string)
        else:
            parts.append(expression(state, string))
    return r.Format(at, tuple(parts))


# ---------------------------------------------------------------- operators


def lower_primary(state: State, node: Any) -> r.Expr:
    """`a.b(c)[d]…`: down to the first name in a loop, then up again."""
    nodes = state.nodes
    chain = []
    kind = type(node)
    while True:
        chain.append((len(nodes), kind, node))
        nodes.append(node)
        node = node.func if kind is cst.Call else node.value
        kind = type(node)
        if kind is not cst.Attribute and kind is not cst.Call and kind is not cst.Subscript:
            break
    value = EXPRESSIONS[kind](state, node)
    for at, kind, node in reversed(chain):
        if kind is cst.Attribute:
            name = node.attr.value
            value = r.Attr(at, value, name if name.isascii() else identifier(name))
        elif kind is cst.Call:
            value = r.Call(at, value, arguments(state, node.args) if node.args else ())
        else:
            value = r.Item(at, value, index(state, node))
    return value


def arguments(state: State, nodes: Iterable[cst.Arg]) -> tuple[r.Arg, ...]:
    args = []
    for node in nodes:
        at = state.number(node)
        keyword = node.keyword
        name = None if keyword is None else identifier(keyword.value)
        args.append(r.Arg(at, expression(state, node.value), name, node.star))
    return tuple(args)


def index(state: State, node: cst.Subscript) -> r.Expr:
    elements = node.slice
    if len(elements) == 1 and not isinstance(elements[0].comma, cst.Comma) and type(elements[0].slice) is cst.Slice:
        return subscript(state, elements[0].slice)
    if len(elements) == 1 and not isinstance(elements[0].comma, cst.Comma) and not star(elements[0].slice):
        return subscript(state, elements[0].slice)
    at = state.number(node)
    return r.Seq(at, "tuple", tuple([subscript(state, element.slice) for element in elements]))


def star(node: Any) -> bool:
    return type(node) is cst.Index and node.star is not None


def subscript(state: State, node: Any) -> r.Expr:
    if type(node) is cst.Index:
        if node.star is None:
            return expression(state, node.value)
        at = state.number(node)
        return r.Star(at, expression(state, node.value))
    at = state.number(node)
    return r.Slice(at, optional(state, node.lower), optional(state, node.upper), optional(state, node.step))


def lower_binary(state: State, node: Any) -> r.Expr:
    chain = []
    while type(node) is cst.BinaryOperation:
        chain.append((state.number(node), node))
        node = node.left
    value = expression(state, node)
    for at, node in reversed(chain):
        value = r.Binary(at, BINARY[type(node.operator)], value, expression(state, node.right))
    return value


def lower_logic(state: State, node: Any) -> r.Expr:
    chain = []
    while type(node) is cst.BooleanOperation:
        chain.append((state.number(node), node))
        node = node.left
    value = expression(state, node)
    for at, node in reversed(chain):
        op = "and" if type(node.operator) is cst.And else "or"
        value = r.Logic(at, op, value, expression(state, node.right))
    return value


def lower_unary(state: State, node: cst.UnaryOperation) -> r.Expr:
    at = state.number(node)
    return r.Unary(at, UNARY[type(node.operator)], expression(state, node.expression))


def lower_comparison(state: State, node: cst.Comparison) -> r.Expr:
    at = state.number(node)
    left = expression(state, node.left)
    ops = tuple([COMPARE[type(target.operator)] for target in node.comparisons])
    return r.Compare(at, left, ops, tuple([expression(state, target.comparator) for target in node.comparisons]))


def lower_conditional(state: State, node: cst.IfExp) -> r.Expr:
    at = state.number(node)
    return r.Cond(at, expression(state, node.test), expression(state, node.body), expression(state, node.orelse))


def lower_walrus(state: State, node: cst.NamedExpr) -> r.Expr:
    at = state.number(node)
    return r.Walrus(at, target(state, node.target), expression(state, node.value))


def lower_await(state: State, node: cst.Await) -> r.Expr:
    at = state.number(node)
    return r.Await(at, expression(state, node.expression))


def lower_yield(state: State, node: cst.Yield) -> r.Expr:
    at = state.number(node)
    state.scope.generator = True
    value = node.value
    if isinstance(value, cst.From):
        return r.Yield(at, expression(state, value.item), True)
    return r.Yield(at, optional(state, value))


def lower_lambda(state: State, node: cst.Lambda) -> r.Expr:
    at = state.number(node)
    params = parameters(state, node.params)
    outer, state.scope = state.scope, Scope()
    body = expression(state, node.body)
    state.scope = outer
    return r.Lambda(at, params, body)


# ---------------------------------------------------------------- displays and comprehensions


def lower_tuple(state: State, node: cst.Tuple) -> r.Expr:
    at = state.number(node)
    return r.Seq(at, "tuple", tuple([EXPRESSIONS[type(element)](state, element) for element in node.elements]))


def lower_list(state: State, node: cst.List) -> r.Expr:
    at = state.number(node)
    return r.Seq(at, "list", tuple([EXPRESSIONS[type(element)](state, element) for element in node.elements]))


def lower_set(state: State, node: cst.Set) -> r.Expr:
    at = state.number(node)
    return r.Seq(at, "set", tuple([EXPRESSIONS[type(element)](state, element) for element in node.elements]))


def lower_element(state: State, node: cst.Element) -> r.Expr:
    node_value = node.value
    return EXPRESSIONS[type(node_value)](state, node_value)


def lower_starred(state: State, node: cst.StarredElement) -> r.Expr:
    at = state.number(node)
    return r.Star(at, expression(state, node.value))


def lower_dict(state: State, node: cst.Dict) -> r.Expr:
    at = state.number(node)
    items = []
    for element in node.elements:
        place = state.number(element)
        key = expression(state, element.key) if type(element) is cst.DictElement else None
        items.append(r.DictItem(place, key, expression(state, element.value)))
    return r.Dict(at, tuple(items))


def clauses(state: State, node: cst.CompFor) -> tuple[r.Clause, ...]:
    found = []
    rest: cst.CompFor | None = node
    while rest is not None:
        at = state.number(rest)
        # The target is a name of the comprehension, not of the function around it: `expression`, not `target`.
        place, source = expression(state, rest.target), expression(state, rest.iter)
        found.append(r.Clause(at, place, source, tuple([expression(state, test.test) for test in rest.ifs])))
        rest = rest.inner_for_in
    return tuple(found)


def lower_comprehension(state: State, node: Any) -> r.Expr:
    at = state.number(node)
    element = expression(state, node.elt)
    return r.Comp(at, COMPREHENSIONS[type(node)], None, element, clauses(state, node.for_in))


def lower_dict_comprehension(state: State, node: cst.DictComp) -> r.Expr:
    at = state.number(node)
    key, value = expression(state, node.key), expression(state, node.value)
    return r.Comp(at, "dict", key, value, clauses(state, node.for_in))


def lower_starred_dict_comprehension(state: State, node: cst.StarredDictComp) -> r.Expr:
    at = state.number(node)
    parts = [expression(state, node.value)]
    for clause in clauses(state, node.for_in):
        parts += [clause.iter, *clause.tests]
    return r.Opaque(at, tuple(parts))


COMPREHENSIONS: dict[type, str] = {cst.ListComp: "list", cst.SetComp: "set", cst.GeneratorExp: "generator"}

EXPRESSIONS: dict[type, Callable[[State, Any], r.Expr]] = {
    cst.Name: lower_name,
    cst.Integer: lower_integer,
    cst.Float: lower_float,
    cst.Imaginary: lower_opaque,
    cst.Ellipsis: lower_opaque,
    cst.SimpleString: lower_string,
    cst.FormattedString: lower_format,
    cst.ConcatenatedString: lower_concatenated,
    cst.Attribute: lower_primary,
    cst.Call: lower_primary,
    cst.Subscript: lower_primary,
    cst.BinaryOperation: lower_binary,
    cst.BooleanOperation: lower_logic,
    cst.UnaryOperation: lower_unary,
    cst.Comparison: lower_comparison,
    cst.IfExp: lower_conditional,
    cst.NamedExpr: lower_walrus,
    cst.Await: lower_await,
    cst.Yield: lower_yield,
    cst.Lambda: lower_lambda,
    cst.Tuple: lower_tuple,
    cst.List: lower_list,
    cst.Set: lower_set,
    cst.Element: lower_element,
    cst.StarredElement: lower_starred,
    cst.Dict: lower_dict,
    cst.GeneratorExp: lower_comprehension,
    cst.ListComp: lower_comprehension,
    cst.SetComp: lower_comprehension,
    cst.DictComp: lower_dict_comprehension,
}
# Nodes that the oldest libcst that we run with does not have.
for newer, function in (
    ("TemplatedString", lower_template),
    ("StarredDictComp", lower_starred_dict_comprehension),
):
    if hasattr(cst, newer):
        EXPRESSIONS[getattr(cst, newer)] = function


# ---------------------------------------------------------------- binding


def bind(state: State, name: str) -> None:
    state.scope.bound[name] = None


def bind_record(state: State, record: Any) -> None:
    kind = type(record)
    if kind is r.Name:
        state.scope.bound[record.id] = None
    elif kind is r.Seq:
        for item in record.items:
            bind_record(state, item)
    elif kind is r.Star:
        bind_record(state, record.value)


def target(state: State, node: Any) -> r.Expr:
    """An expression that is assigned to."""
    record = EXPRESSIONS[type(node)](state, node)
    bind_record(state, record)
    return record


def parameters(state: State, node: cst.Parameters) -> tuple[r.Param, ...]:
    params: list[r.Param] = []

    def add(param: cst.Param, kind: str) -> None:
        at = state.number(param)
        default = optional(state, param.default)
        annotation = None if param.annotation is None else expression(state, param.annotation.annotation)
        params.append(r.Param(at, identifier(param.name.value), kind, default, annotation))

    for param in node.posonly_params:
        add(param, "pos")
    for param in node.params:
        add(param, "any")
    if isinstance(node.star_arg, cst.Param):
        add(node.star_arg, "*")
    for param in node.kwonly_params:
        add(param, "key")
    if node.star_kwarg is not None:
        add(node.star_kwarg, "**")
    return tuple(params)


# ---------------------------------------------------------------- simple statements


def lower_expr(state: State, node: cst.Expr) -> r.Stmt | None:
    value = node.value
    if type(value) in NO_EFFECT:
        return None
    at = state.number(node)
    return r.Do(at, expression(state, value))


def lower_assign(state: State, node: cst.Assign) -> r.Stmt:
    at = state.number(node)
    targets = tuple([target(state, item.target) for item in node.targets])
    return r.Assign(at, targets, expression(state, node.value))


def lower_annotated(state: State, node: cst.AnnAssign) -> r.Stmt:
    at = state.number(node)
    place = target(state, node.target)
    annotation = expression(state, node.annotation.annotation)
    return r.Assign(at, (place,), optional(state, node.value), annotation)


def lower_update(state: State, node: cst.AugAssign) -> r.Stmt:
    at = state.number(node)
    place = target(state, node.target)
    return r.Update(at, place, UPDATE[type(node.operator)], expression(state, node.value))


def lower_return(state: State, node: cst.Return) -> r.Stmt:
    at = state.number(node)
    return r.Return(at, optional(state, node.value))


def lower_raise(state: State, node: cst.Raise) -> r.Stmt:
    at = state.number(node)
    return r.Raise(at, optional(state, node.exc))


def lower_break(state: State, node: cst.Break) -> r.Stmt:
    return r.Break(state.number(node))


def lower_continue(state: State, node: cst.Continue) -> r.Stmt:
    return r.Continue(state.number(node))


def lower_pass(state: State, node: cst.Pass) -> None:
    return None


def lower_delete(state: State, node: cst.Del) -> r.Stmt:
    at = state.number(node)
    deleted = node.target
    if isinstance(deleted, (cst.Tuple, cst.List)):
        return r.Delete(at, tuple([target(state, element) for element in deleted.elements]))
    return r.Delete(at, (target(state, deleted),))


def lower_assert(state: State, node: cst.Assert) -> r.Stmt:
    at = state.number(node)
    return r.Assert(at, expression(state, node.test))


def dotted(node: Any) -> str:
    names = []
    while type(node) is cst.Attribute:
        names.append(identifier(node.attr.value))
        node = node.value
    names.append(identifier(node.value))
    return ".".join(reversed(names))


def aliases(state: State, nodes: Iterable[cst.ImportAlias], bind_first: bool) -> tuple[r.Alias, ...]:
    found = []
    for node in nodes:
        at = state.number(node)
        name = dotted(node.name)
        asname = identifier(node.asname.name.value) if node.asname and isinstance(node.asname.name, cst.Name) else None
        bind(state, asname or (name.split(".", 1)[0] if bind_first else name))
        found.append(r.Alias(at, name, asname))
    return tuple(found)


def lower_import(state: State, node: cst.Import | cst.LazyImport) -> r.Stmt:
    at = state.number(node)
    return r.Import(at, aliases(state, node.names, bind_first=True))


def lower_import_from(state: State, node: cst.ImportFrom | cst.LazyImportFrom) -> r.Stmt:
    at = state.number(node)
    module = "" if node.module is None else dotted(node.module)
    names = () if isinstance(node.names, cst.ImportStar) else aliases(state, node.names, bind_first=False)
    return r.ImportFrom(at, module, len(node.relative), names)


def scope_statement(state: State, node: cst.Global | cst.Nonlocal, kind: str) -> r.Stmt:
    names = tuple([identifier(item.name.value) for item in node.names])
    state.scope.outer.update(names)
    return r.Scope(state.number(node), kind, names)


def lower_global(state: State, node: cst.Global) -> r.Stmt:
    return scope_statement(state, node, "global")


def lower_nonlocal(state: State, node: cst.Nonlocal) -> r.Stmt:
    return scope_statement(state, node, "nonlocal")


def lower_type_alias(state: State, node: cst.TypeAlias) -> r.Stmt:
    at = state.number(node)
    return r.Assign(at, (target(state, node.name),), r.Opaque(state.number(node.value)))


# ---------------------------------------------------------------- compound statements


def statements(state: State, nodes: Iterable[Any]) -> tuple[r.Stmt, ...]:
    found = []
    for node in nodes:
        if type(node) is cst.SimpleStatementLine:
            for small in node.body:
                record = STATEMENTS[type(small)](state, small)
                if record is not None:
                    found.append(record)
        else:
            record = STATEMENTS[type(node)](state, node)
            if record is not None:
                found.append(record)
    return tuple(found)


def block(state: State, node: Any) -> tuple[r.Stmt, ...]:
    """The body of a suite, an `else` or a `finally`; nothing for None."""
    return () if node is None else statements(state, node.body)


def orelse(state: State, node: cst.Else | cst.Finally | None) -> tuple[r.Stmt, ...]:
    return () if node is None else block(state, node.body)


def lower_if(state: State, node: cst.If) -> r.Stmt:
    chain = []
    rest: Any = node
    while type(rest) is cst.If:
        at = state.number(rest)
        chain.append((at, expression(state, rest.test), block(state, rest.body)))
        rest = rest.orelse
    otherwise = orelse(state, rest)
    for at, test, body in reversed(chain[1:]):
        otherwise = (r.If(at, test, body, otherwise),)
    at, test, body = chain[0]
    return r.If(at, test, body, otherwise)


def lower_for(state: State, node: cst.For) -> r.Stmt:
    at = state.number(node)
    place, source = target(state, node.target), expression(state, node.iter)
    return r.For(at, place, source, block(state, node.body), orelse(state, node.orelse))


def lower_while(state: State, node: cst.While) -> r.Stmt:
    at = state.number(node)
    test = expression(state, node.test)
    return r.While(at, test, block(state, node.body), orelse(state, node.orelse))


def lower_with(state: State, node: cst.With) -> r.Stmt:
    at = state.number(node)
    items = []
    for item in node.items:
        place = state.number(item)
        value = expression(state, item.item)
        items.append(r.WithItem(place, value, None if item.asname is None else target(state, item.asname.name)))
    return r.With(at, tuple(items), block(state, node.body))


def lower_try(state: State, node: cst.Try | cst.TryStar) -> r.Stmt:
    at = state.number(node)
    body = block(state, node.body)
    handlers = []
    for handler in node.handlers:
        place = state.number(handler)
        caught = optional(state, handler.type)
        name = None
        if handler.name is not None and isinstance(handler.name.name, cst.Name):
            name = identifier(handler.name.name.value)
            bind(state, name)
        handlers.append(r.Handler(place, caught, name, block(state, handler.body)))
    return r.Try(at, body, tuple(handlers), orelse(state, node.orelse), orelse(state, node.finalbody))


def lower_function(state: State, node: cst.FunctionDef) -> r.Stmt:
    at = state.number(node)
    name = identifier(node.name.value)
    bind(state, name)
    decorators = tuple([expression(state, decorator.decorator) for decorator in node.decorators])
    params = parameters(state, node.params)
    outer, state.scope = state.scope, Scope()
    body = block(state, node.body)
    inner, state.scope = state.scope, outer
    names = tuple([bound for bound in inner.bound if bound not in inner.outer])
    return r.Function(at, name, params, body, decorators, names, inner.generator, node.asynchronous is not None)


def lower_class(state: State, node: cst.ClassDef) -> r.Stmt:
    at = state.number(node)
    name = identifier(node.name.value)
    bind(state, name)
    decorators = tuple([expression(state, decorator.decorator) for decorator in node.decorators])
    bases = arguments(state, (*node.bases, *node.keywords))
    outer, state.scope = state.scope, Scope()
    body = block(state, node.body)
    state.scope = outer
    return r.Class(at, name, bases, body, decorators)


# ---------------------------------------------------------------- match


def lower_match(state: State, node: cst.Match) -> r.Stmt:
    at = state.number(node)
    subject = expression(state, node.subject)
    cases = []
    for case in node.cases:
        place = state.number(case)
        values = pattern_values(state, case.pattern)
        names = tuple(dict.fromkeys(pattern_names(case.pattern)))
        for name in names:
            bind(state, name)
        irrefutable = matches_all(case.pattern)
        guard = optional(state, case.guard)
        cases.append(r.MatchCase(place, values, names, irrefutable, guard, block(state, case.body)))
    return r.Match(at, subject, tuple(cases))


def pattern_values(state: State, node: cst.MatchPattern) -> tuple[r.Expr, ...] | None:
    """The values that the pattern compares with, or None when it does more than compare."""
    if isinstance(node, (cst.MatchValue, cst.MatchSingleton)):
        return (expression(state, node.value),)
    if isinstance(node, cst.MatchAs) and node.pattern is not None:
        return pattern_values(state, node.pattern)
    if isinstance(node, cst.MatchOr):
        found: list[r.Expr] = []
        for element in node.patterns:
            values = pattern_values(state, element.pattern)
            if values is None:
                return None
            found += values
        return tuple(found)
    return None


def matches_all(node: cst.MatchPattern) -> bool:
    if isinstance(node, cst.MatchAs):
        return node.pattern is None or matches_all(node.pattern)
    return isinstance(node, cst.MatchOr) and any(matches_all(element.pattern) for element in node.patterns)


def pattern_names(node: Any) -> Iterable[str]:
    if isinstance(node, cst.MatchAs):
        if node.pattern is not None:
            yield from pattern_names(node.pattern)
        if node.name is not None:
            yield identifier(node.name.value)
    elif isinstance(node, cst.MatchStar):
        if node.name is not None:
            yield identifier(node.name.value)
    elif isinstance(node, cst.MatchSequence):
        for element in node.patterns:
            yield from pattern_names(element if isinstance(element, cst.MatchStar) else element.value)
    elif isinstance(node, cst.MatchMapping):
        for pair in node.elements:
            yield from pattern_names(pair.pattern)
        if node.rest is not None:
            yield identifier(node.rest.value)
    elif isinstance(node, cst.MatchClass):
        for element in node.patterns:
            yield from pattern_names(element.value)
        for named in node.kwds:
            yield from pattern_names(named.pattern)
    elif isinstance(node, cst.MatchOr):
        for choice in node.patterns:
            yield from pattern_names(choice.pattern)


NO_EFFECT: frozenset[type] = frozenset(
    {cst.SimpleString, cst.ConcatenatedString, cst.Ellipsis, cst.Integer, cst.Float, cst.Imaginary}
)

STATEMENTS: dict[type, Callable[[State, Any], r.Stmt | None]] = {
    cst.Expr: lower_expr,
    cst.Assign: lower_assign,
    cst.AnnAssign: lower_annotated,
    cst.AugAssign: lower_update,
    cst.Return: lower_return,
    cst.Raise: lower_raise,
    cst.Break: lower_break,
    cst.Continue: lower_continue,
    cst.Pass: lower_pass,
    cst.Del: lower_delete,
    cst.Assert: lower_assert,
    cst.Import: lower_import,
    cst.ImportFrom: lower_import_from,
    cst.Global: lower_global,
    cst.Nonlocal: lower_nonlocal,
    cst.TypeAlias: lower_type_alias,
    cst.If: lower_if,
    cst.For: lower_for,
    cst.While: lower_while,
    cst.With: lower_with,
    cst.Try: lower_try,
    cst.TryStar: lower_try,
    cst.FunctionDef: lower_function,
    cst.ClassDef: lower_class,
    cst.Match: lower_match,
}
for newer, lowering in (("LazyImport", lower_import), ("LazyImportFrom", lower_import_from)):
    if hasattr(cst, newer):
        STATEMENTS[getattr(cst, newer)] = lowering
