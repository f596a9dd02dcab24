"""Numbers and tests as formulas: can some conditions hold on one pass of a loop while another one does not?

A number that counts the passes, a length and an option may be anything; a value of which nothing is known may be what
it was not meant to be. So a condition is *met* only where everything in it that is not known leaves it true, and the
answer is yes only where some pass is found for every number that the user may choose.
"""

from __future__ import annotations

import enum
import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from dpcheck.execution.facts import SourceKind
from dpcheck.execution.values import Choice, Const, Data, Sequence, Value

_MOST_DEPTH = 12
_MOST_ASSIGNMENTS = 60_000
_CHOSEN = (2, 3, 4)
_COUNTED = range(12)
_LENGTHS = range(1, 10)
_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "/": operator.truediv,
    "%": operator.mod,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_TESTS = ("and", "or", "not", "if")


class Kind(enum.Enum):
    """What a symbol stands for: a number that counts passes, a length, what the user chooses, data, or who knows."""

    COUNTER = "counter"
    LENGTH = "length"
    OPTION = "option"
    DATA = "data"
    OPAQUE = "opaque"


class Symbol(NamedTuple):
    key: object
    kind: Kind


class Term(NamedTuple):
    op: str
    parts: tuple[Formula, ...]


Formula: TypeAlias = "Symbol | Term | int | float | str | None"
Assignment = Mapping[Symbol, Any]

TRUE: Formula = True
FALSE: Formula = False


def formula_of(value: Value | None, depth: int = 0) -> Formula:
    """A value as a formula over what it was computed from."""
    if isinstance(value, Const) and isinstance(value.value, (int, float, str, type(None))):
        return value.value
    if isinstance(value, Choice) and value.test is not None and depth < _MOST_DEPTH:
        yes, no = value.options
        return Term("if", tuple(formula_of(part, depth + 1) for part in (value.test, yes, no)))
    if not isinstance(value, Data):
        return Symbol(id(value), Kind.OPAQUE)
    if type(value.identity) is tuple and value.identity[0] == "len":
        return length_of(value.identity[1])
    if value.made is not None and depth < _MOST_DEPTH:
        op, *operands = value.made
        if op in _TESTS or op in _ARITHMETIC:
            return _condensed(Term(op, tuple(formula_of(part, depth + 1) for part in operands)))
    return Symbol(_key(value), _kind(value))


def length_of(value: object) -> Formula:
    """The length of something, by whichever name it goes."""
    count = value.state.get("count") if isinstance(value, (Sequence, Data)) else None
    return formula_of(count) if isinstance(count, Value) else Symbol(("len", id(value)), Kind.LENGTH)


def _condensed(term: Term) -> Formula:
    """A quotient that stays the same from pass to pass is one number, however it came about."""
    symbols = [symbol for symbol in symbols_of(term) if symbol.key != "world size"]
    kinds = {symbol.kind for symbol in symbols}
    if term.op not in ("//", "/") or not kinds or not kinds <= {Kind.LENGTH, Kind.OPTION}:
        return term
    return Symbol(term, Kind.LENGTH if Kind.LENGTH in kinds else Kind.OPTION)


def _key(value: Data) -> object:
    try:
        hash(value.identity)
    except TypeError:
        return id(value)
    return value.identity


def _kind(value: Data) -> Kind:
    facts = value.facts
    computed = facts.has(SourceKind.LOADER) or facts.has(SourceKind.MODULE)
    if facts.place.is_unknown or (facts.place.spread and facts.type == "tensor"):
        return Kind.OPAQUE  # a whole batch is no number and no truth: what was taken for a batch is something else
    if facts.place.is_local or computed:
        return Kind.DATA
    if facts.has(SourceKind.COUNTER):
        return Kind.COUNTER if facts.type in ("int", "number") else Kind.OPAQUE
    if facts.has(SourceKind.OPTION) or facts.place.world:
        return Kind.OPTION
    if facts.type == "number" and facts.place.is_replicate and not facts.sources:
        return Kind.COUNTER  # one that the script itself counts
    return Kind.OPAQUE


def symbols_of(formula: Formula) -> Iterator[Symbol]:
    waiting = [formula]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Symbol):
            yield part
        elif isinstance(part, Term):
            waiting.extend(part.parts)


def defaults(formula: Formula, ranks: int, rank: int) -> dict[Symbol, Any]:
    """What options are where the user says nothing, and the rank's number in a run on so many ranks."""
    found: dict[Symbol, Any] = {}
    for symbol in symbols_of(formula):
        if symbol.key == "world size":
            found[symbol] = ranks
        elif symbol.key in ("rank", "local rank"):
            found[symbol] = rank
        elif isinstance(symbol.key, Data) and isinstance(symbol.key.default, Const):
            found[symbol] = symbol.key.default.value
        elif isinstance(symbol.key, Term):
            found[symbol] = value_of(symbol.key, defaults(symbol.key, ranks, rank))
    return found


def negated(formula: Formula) -> Formula:
    return Term("not", (formula,))


def all_of(formulas: Iterable[Formula]) -> Formula:
    result: Formula = TRUE
    for formula in formulas:
        result = formula if result is TRUE else Term("and", (result, formula))
    return result


def any_of(formulas: Iterable[Formula]) -> Formula:
    result: Formula = FALSE
    for formula in formulas:
        result = formula if result is FALSE else Term("or", (result, formula))
    return result


def replaced(formula: Formula, old: Formula, new: Formula) -> Formula:
    """The formula with one part put in the place of another."""
    if type(formula) is type(old) and formula == old:
        return new
    if isinstance(formula, Term):
        return Term(formula.op, tuple(replaced(part, old, new) for part in formula.parts))
    return formula


def can_fail(
    wanted: Formula,
    conditions: Formula,
    unknown: frozenset[Symbol] = frozenset(),
    fixed: frozenset[Symbol] = frozenset(),
) -> bool:
    """Is there a pass on which the conditions are met and `wanted` is not, whatever numbers the user chooses?

    `unknown`: symbols of which nothing may be assumed. `fixed`: those that have one value on all passes.
    """
    inside, outside = set(symbols_of(wanted)), set(symbols_of(conditions))
    numeric = set(_numbers(wanted)) | set(_numbers(conditions))
    chosen: dict[Symbol, Iterable[Any]] = {}
    free: dict[Symbol, Iterable[Any]] = {}
    counted = _counted((wanted, conditions))
    for symbol in inside | outside:
        if symbol in unknown or (symbol.kind is Kind.OPAQUE and not (symbol in inside and symbol in outside)):
            continue
        if symbol.key == "world size":
            free[symbol] = _CHOSEN
        elif symbol in fixed or (symbol.kind is Kind.OPTION and symbol in numeric):
            chosen[symbol] = _CHOSEN
        elif symbol.kind is Kind.COUNTER:
            free[symbol] = counted
        elif symbol.kind is Kind.LENGTH:
            free[symbol] = sorted({*_LENGTHS, *(n for n in counted if n)})
        else:
            free[symbol] = range(4) if symbol in numeric else (False, True)
    found = 0
    for choice in _assignments(chosen):
        found += 1
        for tried, passing in enumerate(_assignments(free)):
            if tried >= _MOST_ASSIGNMENTS:
                return False
            assignment = choice | passing
            if value_of(conditions, assignment) is True and value_of(wanted, assignment) is False:
                break
        else:
            return False
    return found > 0


def _counted(formulas: Iterable[Formula]) -> list[int]:
    """Numbers that a counter may have: small ones, and those around the numbers that it is compared with."""
    around = {n for n in _constants(formulas) if 0 < n <= 4096}
    return sorted({*_COUNTED, *(n * k + d for n in around for k in (1, 2) for d in (-2, -1, 0, 1))} - {-1})


def _constants(formulas: Iterable[Formula]) -> Iterator[int]:
    waiting = list(formulas)
    while waiting:
        part = waiting.pop()
        if isinstance(part, Term):
            waiting.extend(part.parts)
        elif type(part) is int:
            yield part


def _numbers(formula: Formula, computed: bool = False) -> Iterator[Symbol]:
    """The symbols that are computed with or compared, not only asked whether they are true."""
    if isinstance(formula, Symbol):
        if computed:
            yield formula
    elif isinstance(formula, Term):
        for index, part in enumerate(formula.parts):
            inner = formula.op in _ARITHMETIC or (computed and formula.op == "if" and index > 0)
            yield from _numbers(part, inner)


def _assignments(domains: dict[Symbol, Iterable[Any]]) -> Iterator[dict[Symbol, Any]]:
    for values in itertools.product(*domains.values()):
        yield dict(zip(domains, values, strict=True))


def value_of(formula: Formula, assignment: Assignment) -> Any:
    """The value of a formula; a test is True, False, or None where it is not known."""
    if isinstance(formula, Symbol):
        return assignment.get(formula)
    if not isinstance(formula, Term):
        return formula
    if formula.op == "not":
        inner = _truth(formula.parts[0], assignment)
        return None if inner is None else not inner
    if formula.op in ("and", "or"):
        truths = [_truth(part, assignment) for part in formula.parts]
        decisive = formula.op == "or"
        return decisive if decisive in truths else None if None in truths else not decisive
    if formula.op == "if":
        test, yes, no = formula.parts
        truth = _truth(test, assignment)
        if truth is None:
            values = [value_of(part, assignment) for part in (yes, no)]
            return values[0] if values[0] == values[1] else None
        return value_of(yes if truth else no, assignment)
    left, right = (value_of(part, assignment) for part in formula.parts)
    if left is None or right is None:
        return None
    try:
        return _ARITHMETIC[formula.op](left, right)
    except (ArithmeticError, TypeError, ValueError):
        return None


def _truth(formula: Formula, assignment: Assignment) -> bool | None:
    value = value_of(formula, assignment)
    return None if value is None else bool(value)
