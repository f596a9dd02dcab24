"""Evaluates expressions to abstract values, and what tests say of them: truth, narrowing, assumptions."""

from __future__ import annotations

import contextlib
import operator
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, cast

from dpcheck.execution import builtins, calls, divisions, packages, placement, tensors, weights
from dpcheck.execution import facts as facts_
from dpcheck.execution.builtins import iteration, mappings, reflection, sequences, subscripts
from dpcheck.execution.facts import CONSTANT, NOTHING, Facts, Source, SourceKind
from dpcheck.execution.trail import differing, element_of, join
from dpcheck.execution.values import (
    FALSE,
    NONE,
    TRUE,
    Bound,
    Builtin,
    Choice,
    Class,
    Const,
    Content,
    Data,
    Foreign,
    Function,
    Generator,
    Instance,
    Lazy,
    Mapping,
    ModuleValue,
    Scope,
    Sequence,
    Value,
    options,
)
from dpcheck.program import records as r

if TYPE_CHECKING:
    from dpcheck.execution.interpreter import Interpreter, Narrowing

LONGEST_TEXT = 10_000
_LONGEST_EXACT = 24
_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "**": operator.pow,
}
_UNARY: dict[str, Callable[[Any], Any]] = {"-": operator.neg, "+": operator.pos, "~": operator.invert}
_CONVERSIONS: dict[str, Callable[[Any], Any]] = {"": lambda value: value, "r": repr, "s": str, "a": ascii}
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def evaluate(it: Interpreter, node: r.Expr) -> Value:
    it.count_step()
    return _EXPRESSIONS[type(node)](it, node)


# ---------------------------------------------------------------- names


def _name(it: Interpreter, node: r.Name) -> Value:
    return lookup(it, node.id, node.at)


def lookup(it: Interpreter, name: str, at: int) -> Value:
    scope: Scope | None = it.frame.scope
    while scope is not None:
        value = scope.names.get(name)
        if value is not None:
            return _settled(it, scope, name, value)
        scope = scope.parent
    globals_ = it.frame.scope.globals
    value = globals_.names.get(name)
    if value is not None:
        return _settled(it, globals_, name, value)
    starred = it.starred(globals_, name) if globals_.stars else None
    if starred is not None:
        return _settled(it, globals_, name, starred)
    found = builtins.find(it, name)
    if found is not None:
        return found
    it.note_unknown(f"the name {name}, which nothing defines", it.site(at))
    return Data(NOTHING)


def _settled(it: Interpreter, scope: Scope, name: str, value: Value) -> Value:
    if isinstance(value, Lazy):
        value = it.force(value)
        scope.names[name] = value
    return it.unified.get(value, value) if it.unified else value


def bind(it: Interpreter, name: str, value: Value) -> None:
    scope = it.frame.scope
    function = it.frame.function
    if function is not None and name not in scope.function_locals:
        outer = scope.parent
        while outer is not None and outer.parent is not None:
            if name in outer.names:
                it.trail.set(outer.names, name, value)
                return
            outer = outer.parent
        it.trail.set(scope.globals.names, name, value)
        return
    it.trail.set(scope.names, name, value)


def assign(it: Interpreter, target: r.Expr, value: Value) -> None:
    if isinstance(target, r.Name):
        bind(it, target.id, value)
    elif isinstance(target, r.Attr):
        calls.set_attribute(it, evaluate(it, target.value), target.name, value, it.site(target.at))
    elif isinstance(target, r.Item):
        subscripts.set_item(it, evaluate(it, target.value), _index(it, target.index), value, it.site(target.at))
    elif isinstance(target, r.Seq):
        for part, item in zip(target.items, unpack(it, value, target.items), strict=True):
            assign(it, part.value if isinstance(part, r.Star) else part, item)
    elif isinstance(target, r.Star):
        assign(it, target.value, value)


def delete(it: Interpreter, target: r.Expr) -> None:
    """`del target`, of entries and attributes. A name that is gone is not asked for again."""
    if isinstance(target, r.Item):
        subscripts.delete_item(it, evaluate(it, target.value), _index(it, target.index))
    elif isinstance(target, r.Attr):
        owner = evaluate(it, target.value)
        if isinstance(owner, Instance):
            it.trail.remove(owner.attrs, target.name)
    elif isinstance(target, r.Seq):
        for part in target.items:
            delete(it, part)


def unpack(it: Interpreter, value: Value, targets: tuple[r.Expr, ...]) -> list[Value]:
    """The values that an unpacking assignment gives to each of its targets."""
    stars = [i for i, t in enumerate(targets) if isinstance(t, r.Star)]
    if isinstance(value, Choice):
        columns = [unpack(it, option, targets) for option in value.options if not _is_none(option)]
        result: list[Value] = columns[0] if columns else [Data(NOTHING) for _ in targets]
        for column in columns[1:]:
            result = [join(a, b) for a, b in zip(result, column, strict=True)]
        return result
    items = iteration.exact_items(value, len(targets) if not stars else None)
    if items is not None:
        if not stars and len(items) == len(targets):
            return list(items)
        if stars and len(items) >= len(targets) - 1:
            before, after = stars[0], len(targets) - 1 - stars[0]
            middle = items[before : len(items) - after]
            return [*items[:before], Sequence(list(middle)), *items[len(items) - after :]]
    element = calls.element(it, value)
    return [Sequence(None, element=element) if isinstance(t, r.Star) else element for t in targets]


def update(it: Interpreter, node: r.Update) -> None:
    old = evaluate(it, node.target)
    value = evaluate(it, node.value)
    site = it.site(node.at)
    for one in options(old):
        if isinstance(one, Data) and one.facts.type == "tensor" and not isinstance(old, Choice):
            made = binary(it, node.op, one, value, site)
            tensors.in_place(it, one, _accumulated(node.op, made), site)
            if one.facts.gradient_of and isinstance(node.target, r.Attr):
                return
            assign(it, node.target, one)
            return
        if isinstance(one, Sequence) and one.kind == "list" and node.op == "+" and not isinstance(old, Choice):
            sequences.extend(it, one, value)
            return
    assign(it, node.target, _accumulated(node.op, binary(it, node.op, old, value, site)))


def _accumulated(op: str, made: Value) -> Value:
    """What `total += value` leaves in `total`."""
    if op == "+" and isinstance(made, Data) and made.facts.mean is not None:
        made.state["facts"] = tensors.added(made.facts)  # a new value: nothing else has it yet
    return made


# ---------------------------------------------------------------- literals and displays


def _const(it: Interpreter, node: r.Const) -> Value:
    if it.frame.unit.is_stub:
        return Const(node.value)
    return Const(node.value, it.site(node.at))


def _bytes(it: Interpreter, node: r.Bytes) -> Value:
    return Const(node.value)


def _format(it: Interpreter, node: r.Format) -> Value:
    parts = [as_text(evaluate(it, part)) for part in node.parts]
    texts = [str(part.value) for part in parts if isinstance(part, Const)]
    if len(texts) == len(parts) and sum(map(len, texts)) <= LONGEST_TEXT:
        return Const("".join(texts))
    return _text_of(it, parts, node.at)


def _field(it: Interpreter, node: r.Field) -> Value:
    """The text that an f-string has for a value with a conversion or a format."""
    value = evaluate(it, node.value)
    spec = [evaluate(it, part) for part in node.spec]
    texts = [str(part.value) for part in spec if isinstance(part, Const)]
    if isinstance(value, Const) and len(texts) == len(spec) and is_plain_format("".join(texts)):
        with contextlib.suppress(TypeError, ValueError, OverflowError):
            return Const(format(_CONVERSIONS[node.conversion](value.value), "".join(texts)))
    return _text_of(it, [value, *spec], node.at)


def _text_of(it: Interpreter, parts: list[Value], at: int) -> Data:
    """A text that is made of these and is not known."""
    facts = tensors.elementwise([facts_of(it, part) for part in parts])
    result = Data(facts_.replace(facts, type="str", grad=False, terms=()), it.site(at))
    result.identity = ("text", *(part.value if isinstance(part, Const) else _identity(part) for part in parts))
    return result


def as_text(value: Value) -> Value:
    """The text that an object is known by, as a path is; any other value as it is."""
    held = value.attrs.get("%facts") if isinstance(value, Instance) else None
    return held if isinstance(held, Const) or (isinstance(held, Data) and held.facts.type == "str") else value


def _seq(it: Interpreter, node: r.Seq) -> Value:
    items: list[Value] = []
    loose: Value | None = None
    exact = True
    for part in node.items:
        if isinstance(part, r.Star):
            inner = evaluate(it, part.value)
            known = iteration.exact_items(inner)
            if known is None:
                exact = False
                loose = calls.element(it, inner) if loose is None else join(loose, calls.element(it, inner), widen=True)
            else:
                items.extend(known)
        else:
            items.append(evaluate(it, part))
    site = it.site(node.at)
    if exact:
        return sequences.set_of(items, site) if node.kind == "set" else Sequence(items, node.kind, site=site)
    element = element_of(Content(items))
    return Sequence(None, node.kind, join(element, loose, widen=True) if element and loose else loose, site=site)


def _dict(it: Interpreter, node: r.Dict) -> Value:
    result = Mapping(site=it.site(node.at))
    for item in node.items:
        value = evaluate(it, item.value)
        if item.key is None:
            mappings.update(it, result, value)
        else:
            mappings.put(it, result, evaluate(it, item.key), value)
    return result


def _star(it: Interpreter, node: r.Star) -> Value:
    return evaluate(it, node.value)


def _lambda(it: Interpreter, node: r.Lambda) -> Value:
    return Function(node, it.closure, it.defaults(node.params), it.frame.owner)


def _comp(it: Interpreter, node: r.Comp) -> Value:
    """A comprehension: element by element where the source is known so, else one pass for all."""
    return _collected(it, node, "list" if node.kind == "generator" else node.kind)


def _collected(it: Interpreter, node: r.Comp, kind: str) -> Value:
    from dpcheck.execution.interpreter import Frame

    frame = it.frame
    inner = Frame(frame.unit, Scope(frame.unit, frame.scope, frame.scope.globals), frame.user_site, frame.function)
    inner.path = (*it.path, None)
    inner.owner = frame.owner
    inner.receiver = frame.receiver
    inner.on_yield = frame.on_yield
    inner.scope.function_locals = frozenset(_targets(node))
    inner.scope.is_comprehension = True
    site = it.site(node.at)
    first = evaluate(it, node.clauses[0].iter)
    pairs: list[tuple[Value | None, Value]] = []
    filters: list[Facts] = []
    exact = True
    length: Facts | None = None
    it.frames.append(inner)
    depth = len(it.guards)
    try:

        def clause(index: int, iterable: Value) -> None:
            nonlocal exact, length
            part = node.clauses[index]
            items = iteration.exact_items(iterable)
            if items is not None and len(items) <= _LONGEST_EXACT:
                it.each(list(items), lambda item: one(index, part, item))
                return
            made = len(pairs)
            numbers = iteration.few_numbers(iterable)
            if numbers and index + 1 == len(node.clauses) and node.key is None and not part.tests:

                def turns() -> Iterator[Value]:
                    """A short range: if what the first turn makes has weights, the others make others."""
                    yield calls.element(it, iterable)
                    if isinstance(first := pairs[-1][1], Instance) and weights.holds_weights(first):
                        yield from numbers[1:]

                it.each(turns(), lambda item: one(index, part, item))
                if len(pairs) - made == len(numbers):
                    return
            exact = False
            known = iteration.length_facts(iterable)
            length = known if length is None else None
            if len(pairs) > made:
                return
            calls.iterate(it, iterable, lambda element: one(index, part, element), site)

        def one(index: int, part: r.Clause, item: Value) -> Value:
            nonlocal exact, length
            assign(it, part.target, item)
            for test in part.tests:
                value = evaluate(it, test)
                truth = it.truth(value)
                if truth is False:
                    return NONE
                if truth is None:
                    exact = False
                    filters.append(facts_of_test(it, value))
                    length = tensors.filtered_length(facts_of(it, value), it.site(test.at))
                for narrowing in narrowings(it, test, value, True):
                    narrow(it, narrowing.node, narrowing.value)
            if index + 1 < len(node.clauses):
                clause(index + 1, evaluate(it, node.clauses[index + 1].iter))
                return NONE
            key = evaluate(it, node.key) if node.key is not None else None
            pairs.append((key, divisions.let_through(it, evaluate(it, node.element), filters)))
            return NONE

        clause(0, first)
    finally:
        it.frames.pop()
        del it.guards[depth:]
    if kind == "dict":
        result = Mapping(site=site)
        for key, value in pairs:
            mappings.put(it, result, key or NONE, value)
        return result
    values = [value for _, value in pairs]
    if exact:
        return Sequence(values, kind, site=site)
    many = Sequence(None, kind, element_of(Content(values)), length, site)
    count = length_of(it, first)
    if kind == "list" and len(node.clauses) == 1 and not node.clauses[0].tests:
        if isinstance(count, Const) or (isinstance(count, Data) and count.facts.place.is_replicate):
            many.state["count"] = count
    return many


def _targets(node: r.Comp) -> set[str]:
    names: set[str] = set()
    waiting: list[Any] = [clause.target for clause in node.clauses]
    while waiting:
        target = waiting.pop()
        if isinstance(target, r.Name):
            names.add(target.id)
        elif isinstance(target, r.Seq):
            waiting.extend(target.items)
        elif isinstance(target, r.Star):
            waiting.append(target.value)
    return names


# ---------------------------------------------------------------- operators


def _attr(it: Interpreter, node: r.Attr) -> Value:
    return calls.attribute(it, evaluate(it, node.value), node.name, it.site(node.at))


def _index(it: Interpreter, node: r.Expr) -> Value:
    if isinstance(node, r.Slice):
        return _slice(it, node)
    if isinstance(node, r.Seq) and node.kind == "tuple":
        return Sequence([_index(it, part) for part in node.items], "tuple")
    return evaluate(it, node)


def _slice(it: Interpreter, node: r.Slice) -> Value:
    parts = [evaluate(it, part) if part is not None else NONE for part in (node.lower, node.upper, node.step)]
    return Sequence(parts, "slice", site=it.site(node.at))


def _item(it: Interpreter, node: r.Item) -> Value:
    value = evaluate(it, node.value)
    return subscripts.get_item(it, value, _index(it, node.index), it.site(node.at))


def _binary(it: Interpreter, node: r.Binary) -> Value:
    # Left-nested chains (`a + b + c …`) are walked in a loop: generated code has thousands of operands.
    chain: list[r.Binary] = []
    left: r.Expr = node
    while isinstance(left, r.Binary):
        chain.append(left)
        left = left.left
    value = evaluate(it, left)
    for part in reversed(chain):
        value = binary(it, part.op, value, evaluate(it, part.right), it.site(part.at))
    return value


def binary(it: Interpreter, op: str, a: Value, b: Value, site: facts_.Site) -> Value:
    """The value of `a op b`."""
    if isinstance(a, Const) and isinstance(b, Const):
        return _fold(op, a, b)
    if isinstance(a, Choice) or isinstance(b, Choice):
        pairs = [(x, y) for x in options(a) for y in options(b)]
        if len(pairs) <= 9:
            result: Value | None = None
            for x, y in pairs:
                one = binary(it, op, x, y, site)
                result = one if result is None else join(result, one)
            differs = tuple(why for one in (a, b) if isinstance(one, Choice) for why in one.differs)
            return cast(Value, differing(result, differs)) if result is not None and differs else result or NONE
    if isinstance(a, Instance) or isinstance(b, Instance):
        return calls.operator_method(it, op, a, b, site)
    if isinstance(a, Sequence) or isinstance(b, Sequence):
        found = sequences.operator(it, op, a, b, site)
        if found is not None:
            return found
    if isinstance(a, Mapping) and op == "|":
        merged = Mapping(dict(a.entries), a.other, site)
        mappings.update(it, merged, b)
        return merged
    if op == "%" and isinstance(a, Const) and isinstance(a.value, str):
        parts = b.items if isinstance(b, Sequence) and b.kind == "tuple" else None
        if parts is not None and all(isinstance(part, Const) for part in parts):
            return _fold(op, a, Const(tuple([part.value for part in parts if isinstance(part, Const)])))
        return Data(facts_.replace(tensors.elementwise([facts_of(it, b)]), type="str"), site)
    return _made(tensors.binary(it, op, a, b, site), op, a, b)


def _made(result: Value, op: str, *operands: Value) -> Value:
    """The result, with what it was computed from, if it is a number or a test."""
    if isinstance(result, Data) and result.facts.type != "tensor" and result not in operands:
        result.made = (op, *operands)
    return result


def _fold(op: str, a: Const, b: Const) -> Value:
    try:
        if _is_handy(op, a.value, b.value):
            return Const(_ARITHMETIC[op](a.value, b.value), a.site)
    except Exception:
        pass
    return Data(CONSTANT)


def _is_handy(op: str, a: Any, b: Any) -> bool:
    """Is the result small enough to be computed, whatever somebody wrote?"""
    x, y = _magnitude(a), _magnitude(b)
    if op == "%" and isinstance(a, str):
        return is_plain_format(a) and x * (y + 9) <= LONGEST_TEXT
    if isinstance(a, (str, bytes)) or isinstance(b, (str, bytes)):
        return (x + y if op == "+" else x * y) <= LONGEST_TEXT
    if op in ("*", "+", "-"):
        return max(x, y) <= 10**15
    if op in ("**", "<<"):
        return x <= 10**6 and y <= 64
    return True


def _magnitude(value: Any) -> float:
    if isinstance(value, tuple):
        return sum(_magnitude(part) for part in value)
    return abs(value) if isinstance(value, (int, float)) else len(value) if isinstance(value, (str, bytes)) else 0


def is_plain_format(text: str) -> bool:
    """Does a format ask for no great width?"""
    return re.search(r"\d{3}|\*", text) is None


def _unary(it: Interpreter, node: r.Unary) -> Value:
    value = evaluate(it, node.operand)
    if node.op == "not":
        return negation(it, value)
    if isinstance(value, Const):
        try:
            site = it.site(node.at) if value.site is not None else None
            return Const(_UNARY[node.op](value.value), site)
        except Exception:
            return Data(CONSTANT)
    return tensors.unary(it, node.op, value, it.site(node.at))


def negation(it: Interpreter, value: Value) -> Value:
    truth = it.truth(value)
    if truth is not None:
        return FALSE if truth else TRUE
    facts = facts_of_test(it, value)
    result = Data(facts_.replace(facts_.without_gradient(facts), type="bool"))
    result.identity = ("not", _identity(value))
    return _made(result, "not", value)


def _identity(value: Value) -> object:
    return value.identity if isinstance(value, Data) else value


def _compare(it: Interpreter, node: r.Compare) -> Value:
    left = evaluate(it, node.left)
    result: Value | None = None
    site = it.site(node.at)
    for op, right_node in zip(node.ops, node.rights, strict=True):
        right = evaluate(it, right_node)
        one = compare(it, op, left, right, site)
        result = one if result is None else _both(it, result, one)
        left = right
    return result or TRUE


def _both(it: Interpreter, a: Value, b: Value) -> Value:
    for first, second in ((a, b), (b, a)):
        truth = it.truth(first)
        if truth is False:
            return FALSE
        if truth is True:
            return second
    return _made(Data(tensors.elementwise([facts_of(it, a), facts_of(it, b)])), "and", a, b)


def compare(it: Interpreter, op: str, a: Value, b: Value, site: facts_.Site) -> Value:
    if op in ("is", "is not", "==", "!="):
        same = equal(it, a, b, identity=op.startswith("is"))
        if same is not None:
            return Const(same == (op in ("is", "==")))
        if _is_none(a) or _is_none(b):
            other = b if _is_none(a) else a
            # Whether there is a value says nothing of what it holds.
            presence = other.differs if isinstance(other, Choice) else ()
            facts = tensors.test_facts([facts_of(it, x) for x in (a, b) if not _is_none(x)])
            result = Data(facts_.replace(facts, differs=presence), site)
            result.identity = ("none" if op in ("is", "==") else "some", _identity(other))
            return result
    if isinstance(a, Const) and isinstance(b, Const):
        try:
            if op in _COMPARISONS:
                return Const(_COMPARISONS[op](a.value, b.value))
            if op in ("in", "not in"):
                return Const((a.value in b.value) == (op == "in"))
        except Exception:
            return Data(CONSTANT)
    if op in ("in", "not in"):
        found = subscripts.contains(it, a, b)
        if found is not None:
            return Const(found == (op == "in"))
    truth = tensors.rank_comparison(op, a, b)
    if truth is not None:
        return Const(truth)
    divisions.tested(it, op, a, b, site)
    compared = tensors.compare(it, op, a, b, site)
    if isinstance(compared, Data) and (isinstance(a, Choice) or isinstance(b, Choice)) and _is_of_no_rank(op, a, b):
        chosen = [why for side in (a, b) if isinstance(side, Choice) for why in side.differs]
        compared = Data(facts_.replace(compared.facts, differs=tuple(chosen)), site)
    return _made(compared, op, a, b)


def _is_of_no_rank(op: str, a: Value, b: Value) -> bool:
    """Is it alike on all ranks, whichever of the alternatives they are (`rank > -1`, with -1 where there is none)?"""
    constants = [isinstance(x, Const) and isinstance(y, Const) for x in options(a) for y in options(b)]
    known = [tensors.rank_comparison(op, x, y) is not None for x in options(a) for y in options(b)]
    return all(one or other for one, other in zip(constants, known, strict=True))


def equal(it: Interpreter, a: Value, b: Value, identity: bool = False) -> bool | None:
    """Are two values equal? None when it is not known."""
    if isinstance(a, Choice) or isinstance(b, Choice):
        answers = {equal(it, x, y, identity) for x in options(a) for y in options(b)}
        return answers.pop() if len(answers) == 1 else None
    if isinstance(a, Const) and isinstance(b, Const):
        if identity and (a.value is None or b.value is None):
            return a.value is b.value
        try:
            return bool(a.value == b.value)
        except Exception:
            return None
    objects = (Instance, Function, Class, Sequence, Mapping, Bound, ModuleValue, Builtin, Generator)
    if _is_none(a) or _is_none(b):
        other = b if _is_none(a) else a
        if isinstance(other, objects):
            return False
        if isinstance(other, Data) and other.facts.type in ("tensor", "int", "float", "bool", "str", "number"):
            return False
        return None
    if isinstance(a, objects) and isinstance(b, objects) and a is b:
        return True
    if isinstance(a, (Class, Function, Builtin)) and isinstance(b, (Class, Function, Builtin)):
        return False
    return None


def _is_none(value: Value) -> bool:
    return isinstance(value, Const) and value.value is None


def _logic(it: Interpreter, node: r.Logic) -> Value:
    left = evaluate(it, node.left)
    truth = it.truth(left)
    if truth is not None:
        return left if truth == (node.op == "or") else evaluate(it, node.right)
    rights: list[Value] = []

    def right() -> Value:
        rights.append(evaluate(it, node.right))
        return rights[-1]

    def short() -> Value:
        return _with_truth(it, left, node.op == "or")

    sides = (short, right) if node.op == "or" else (right, short)
    value = it.choose(node.left, left, *sides)
    if not rights:
        return value
    if it.truth(left) is not None or not all(isinstance(v, (Data, Const)) for v in (left, rights[-1])):
        return value
    combined = Data(tensors.test_facts([facts_of_test(it, left), facts_of_test(it, rights[-1])]))
    combined.identity = (node.op, _identity(left), rights[-1])
    combined.made = (node.op, left, rights[-1])
    return combined if facts_of(it, left).type in ("bool", "") else value


def _with_truth(it: Interpreter, value: Value, wanted: bool) -> Value:
    """The options of a choice that may be true (or false)."""
    kept = [option for option in options(value) if it.truth(option) is not (not wanted)]
    result = kept[0] if kept else value
    for option in kept[1:]:
        result = join(result, option)
    return result


def _cond(it: Interpreter, node: r.Cond) -> Value:
    test = evaluate(it, node.test)
    truth = it.truth(test)
    if truth is not None:
        return evaluate(it, node.body if truth else node.orelse)
    return it.choose(node.test, test, lambda: evaluate(it, node.body), lambda: evaluate(it, node.orelse))


def _walrus(it: Interpreter, node: r.Walrus) -> Value:
    value = evaluate(it, node.value)
    scope = it.frame.scope
    while scope.is_comprehension and scope.parent is not None:
        scope = scope.parent
    if scope is not it.frame.scope and isinstance(node.target, r.Name):
        it.trail.set(scope.names, node.target.id, value)
    else:
        assign(it, node.target, value)
    return value


def _yield(it: Interpreter, node: r.Yield) -> Value:
    value = evaluate(it, node.value) if node.value is not None else NONE
    on_yield = it.frame.on_yield
    if on_yield is None:
        return NONE
    if not node.from_:
        value = divisions.let_through(it, value)
    if not it.frame.unit.is_stub and not node.from_:
        it.record("yield", it.site(node.at), it.frame.receiver, value=value)
    if node.from_:
        calls.iterate(it, value, on_yield, it.site(node.at))
        return NONE
    return on_yield(value)


def _await(it: Interpreter, node: r.Await) -> Value:
    return evaluate(it, node.value)


def _opaque(it: Interpreter, node: r.Opaque) -> Value:
    parts = [evaluate(it, part) for part in node.parts]
    return Data(tensors.elementwise([facts_of(it, part) for part in parts]) if parts else NOTHING)


def _call(it: Interpreter, node: r.Call) -> Value:
    return calls.call_expression(it, node)


# ---------------------------------------------------------------- facts and truth


def facts_of(it: Interpreter, value: Value) -> Facts:
    """What is known of any value, as far as numbers go."""
    if isinstance(value, Const):
        kind = "bool" if isinstance(value.value, bool) else type(value.value).__name__
        return facts_.replace(CONSTANT, type=kind, ndim=0)
    if isinstance(value, Data):
        return value.facts
    if isinstance(value, Choice):
        result: Facts | None = None
        for option in value.options:
            one = facts_of(it, option)
            result = one if result is None else facts_.join(result, one)
        if result is not None and value.differs:
            differs = tuple(dict.fromkeys((*result.differs, *value.differs)))
            place = placement.RATIO if result.place.is_replicate else result.place
            return facts_.replace(result, place=place, differs=differs)
        return result or NOTHING
    if isinstance(value, (Sequence, Mapping)):
        element = element_of(value.content) if isinstance(value, Sequence) else mappings.any_entry(value)
        return facts_.replace(facts_of(it, element), type="") if element is not None else CONSTANT
    if isinstance(value, Instance):
        held = value.attrs.get("%facts")
        return facts_of(it, held) if isinstance(held, (Const, Data)) else NOTHING
    return NOTHING


def facts_of_test(it: Interpreter, value: Value) -> Facts:
    """What is known of the truth of a value: a list is true by its length, whatever is in it, and so is a text, of
    whichever rank it tells.
    """
    facts = facts_of(it, value)
    if isinstance(value, Choice):
        differs = facts_.differences(facts_of_test(it, option) for option in value.options)
        return facts_.replace(facts, differs=tuple(dict.fromkeys((*value.differs, *differs))))
    if facts.type == "str" and facts.by_number:
        return facts_.replace(facts, differs=tuple(why for why in facts.differs if not why.is_rank))
    if isinstance(value, (Sequence, Mapping)) and facts.differs:
        length = value.length if isinstance(value, Sequence) else None
        uneven = length is not None and length.total.is_uneven
        return facts_.replace(facts, differs=length.differs if length is not None and uneven else ())
    return facts


def truth(it: Interpreter, value: Value) -> bool | None:
    """True, False, or None when it is not known."""
    if isinstance(value, Const):
        return bool(value.value)
    if isinstance(value, Choice):
        answers = {truth(it, option) for option in value.options}
        return answers.pop() if len(answers) == 1 else None
    if isinstance(value, Data):
        return _assumed(it, value.identity) if it.assumed or type(value.identity) is tuple else None
    if isinstance(value, Sequence):
        return bool(value.items) if value.items is not None else None
    if isinstance(value, Mapping):
        if value.entries:
            return True
        return False if value.other is None else None
    if isinstance(value, Instance):
        if value.cls.lookup("__bool__") is None and value.cls.lookup("__len__") is None and not value.cls.is_opaque:
            return True
        if value.cls.lookup("__bool__") is not None:
            return truth(it, calls.call_method(it, value, "__bool__", [], {}, it.site(0)))
        return None
    if isinstance(value, (Foreign, Generator)):
        return None
    return True


def _assumed(it: Interpreter, identity: object) -> bool | None:
    if type(identity) is tuple:
        if identity[0] == "not":
            inner = _assumed(it, identity[1])
            return None if inner is None else not inner
        if identity[0] in ("and", "or"):
            left = _assumed(it, identity[1])
            right = truth(it, identity[2])
            if identity[0] == "or":
                return True if left or right else False if left is False and right is False else None
            return False if left is False or right is False else True if left and right else None
    return it.assumed.get(identity)


def assume(it: Interpreter, value: Value, holds: bool) -> bool:
    """Take an undecided condition to be so from here on; False when it cannot be pinned to anything."""
    if isinstance(value, Choice):
        done = False
        for option in value.options:
            if it.truth(option) is None:
                done = assume(it, option, holds) or done
        return True
    if not isinstance(value, Data):
        return True
    _pin(it, value.identity, holds)
    return True


def _pin(it: Interpreter, identity: object, holds: bool) -> None:
    if type(identity) is tuple:
        if identity[0] == "not":
            _pin(it, identity[1], not holds)
            return
        if identity[0] == "and" and holds:
            _pin(it, identity[1], True)
            assume(it, identity[2], True)
            return
        if identity[0] == "or" and not holds:
            _pin(it, identity[1], False)
            assume(it, identity[2], False)
            return
    it.assumed[identity] = holds


def narrowings(it: Interpreter, node: r.Expr, test: Value, holds: bool) -> list[Narrowing]:
    """What the test, known to hold or not, says of the variables in it."""
    from dpcheck.execution.interpreter import Narrowing

    if isinstance(node, r.Unary) and node.op == "not":
        return narrowings(it, node.operand, test, not holds)
    if isinstance(node, r.Logic):
        if (node.op == "and") == holds:
            return narrowings(it, node.left, test, holds) + narrowings(it, node.right, test, holds)
        return []
    subject: r.Expr | None = None
    keep: Callable[[Value], bool] | None = None
    if isinstance(node, (r.Name, r.Attr)):
        subject = node

        def keep(option: Value) -> bool:
            return it.truth(option) is not (not holds)

    elif isinstance(node, r.Compare) and len(node.ops) == 1 and isinstance(node.rights[0], r.Const):
        op, constant = node.ops[0], node.rights[0].value
        if op in ("is", "is not", "==", "!=") and isinstance(node.left, (r.Name, r.Attr)):
            subject = node.left
            positive = (op in ("is", "==")) == holds

            def keep(option: Value) -> bool:
                return equal(it, option, Const(constant)) is not (not positive)

    elif (
        isinstance(node, r.Call)
        and isinstance(node.func, r.Name)
        and node.func.id == "isinstance"
        and len(node.args) == 2
        and isinstance(node.args[0].value, (r.Name, r.Attr))
    ):
        subject = node.args[0].value
        classes = evaluate(it, node.args[1].value)

        def keep(option: Value) -> bool:
            return reflection.is_instance(it, option, classes) is not (not holds)

    if subject is None or keep is None:
        return []
    value = _peek(it, subject)
    if not isinstance(value, Choice):
        return []
    kept = [option for option in value.options if keep(option)]
    if not kept or len(kept) == len(value.options):
        return []
    result = kept[0]
    for option in kept[1:]:
        result = join(result, option)
    return [Narrowing(subject, result)]


def _peek(it: Interpreter, node: r.Expr) -> Value | None:
    """The value of a variable or attribute, without the effects of a property."""
    if isinstance(node, r.Name):
        return lookup(it, node.id, node.at)
    if isinstance(node, r.Attr):
        owner = _peek(it, node.value)
        if isinstance(owner, Instance):
            return owner.attrs.get(node.name)
    return None


def narrow(it: Interpreter, node: r.Expr, value: Value) -> None:
    if isinstance(node, r.Name):
        scope: Scope | None = it.frame.scope
        while scope is not None and node.id not in scope.names:
            scope = scope.parent
        if scope is not None:
            it.trail.set(scope.names, node.id, value)
    elif isinstance(node, r.Attr):
        owner = _peek(it, node.value)
        if isinstance(owner, Instance) and node.name in owner.attrs:
            it.trail.set(owner.attrs, node.name, value)


def is_harmless_base(base: Value) -> bool:
    """A foreign base class that adds nothing a training run depends on (typing, abc, enum …)."""
    if isinstance(base, Foreign):
        return packages.is_harmless(base.name)
    return isinstance(base, Builtin)


def note_annotation(it: Interpreter, name: str, annotation: r.Expr) -> None:
    """Keep the annotated names of a class body in order: dataclasses make their constructor of them."""
    names = it.frame.scope.names.get("%fields")
    fields = list(names.items or []) if isinstance(names, Sequence) else []
    fields.append(Const(name))
    it.frame.scope.names["%fields"] = Sequence(fields)


def underlying(iterable: Value) -> Value:
    """The object that a loop runs over, beneath `enumerate`, `tqdm` and the like."""
    while isinstance(iterable, Generator) and isinstance(iterable.state.get("over"), Value):
        iterable = iterable.state["over"]
    return iterable


def length_of(it: Interpreter, iterable: Value) -> Value | None:
    if isinstance(iterable, Sequence):
        if iterable.items is not None:
            return Const(len(iterable.items))
        count = iterable.state.get("count")
        return count if isinstance(count, Value) else None
    return None


def counter(it: Interpreter, site: facts_.Site) -> Data:
    """An integer that counts the passes of a loop."""
    source = Source(SourceKind.COUNTER, site)
    return Data(facts_.replace(CONSTANT, type="int", ndim=0, sources=frozenset((source,)), clean=False), site)


_EXPRESSIONS: dict[type, Callable[[Interpreter, Any], Value]] = {
    r.Name: _name,
    r.Const: _const,
    r.Bytes: _bytes,
    r.Format: _format,
    r.Field: _field,
    r.Attr: _attr,
    r.Item: _item,
    r.Slice: _slice,
    r.Call: _call,
    r.Binary: _binary,
    r.Unary: _unary,
    r.Compare: _compare,
    r.Logic: _logic,
    r.Cond: _cond,
    r.Seq: _seq,
    r.Star: _star,
    r.Dict: _dict,
    r.Comp: _comp,
    r.Lambda: _lambda,
    r.Walrus: _walrus,
    r.Yield: _yield,
    r.Await: _await,
    r.Opaque: _opaque,
}
