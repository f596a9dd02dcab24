"""Orders that nobody fixed: those of a directory's listing and of a set of texts, which depends on the process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpcheck.execution.facts import CONSTANT, Facts, Site, Source, SourceKind, replace
from dpcheck.execution.trail import element_of, join_all
from dpcheck.execution.values import Choice, Const, Data, Instance, Mapping, Sequence, Value, options

if TYPE_CHECKING:
    from dpcheck.execution.interpreter import Interpreter

_DEEPEST = 4


def of_set(it: Interpreter, value: Sequence, site: Site) -> Value | None:
    """An element of a set that is gone through: text comes in an order of the process's own."""
    element = element_of(value.content)
    if value.kind != "set" or element is None or not any(_is_text(one) for one in options(element)):
        return element
    source = Source(SourceKind.LISTING, value.site or site)
    return join_all([_marked(one, source, site) for one in options(element)])


def _is_text(value: Value) -> bool:
    if isinstance(value, Const):
        return isinstance(value.value, (str, bytes))
    if isinstance(value, Sequence) and value.kind == "tuple":
        inner = element_of(value.content)
        return inner is not None and any(_is_text(one) for one in options(inner))
    return isinstance(value, Data) and value.facts.type == "str"


def _marked(value: Value, source: Source, site: Site) -> Value:
    if isinstance(value, Const):
        return Data(replace(CONSTANT, type=type(value.value).__name__, sources=frozenset((source,))), site)
    if isinstance(value, Data):
        return Data(replace(value.facts, sources=value.facts.sources | {source}), value.site)
    if isinstance(value, Sequence):
        items = [_marked(item, source, site) for item in value.items] if value.items is not None else None
        element = _marked(value.element, source, site) if value.element is not None else None
        return Sequence(items, value.kind, element, value.length, value.site)
    return value


def is_listed(facts: Facts) -> bool:
    return facts.has(SourceKind.LISTING)


def in_order(value: Value, depth: int = 0) -> Value:
    """The value with its order fixed: sorted, or looked up by a name."""
    if depth > _DEEPEST:
        return value
    if isinstance(value, Data):
        return _stripped(value) if is_listed(value.facts) else value
    if isinstance(value, Sequence):
        items = [in_order(item, depth + 1) for item in value.items] if value.items is not None else None
        element = in_order(value.element, depth + 1) if value.element is not None else None
        if items == value.items and element is value.element:
            return value
        made = Sequence(items, value.kind, element, value.length, value.site)
        made.state.update({key: held for key, held in value.state.items() if key != "content"})
        return made
    if isinstance(value, Mapping):
        entries = {key: in_order(entry, depth + 1) for key, entry in value.entries.items()}
        other = in_order(value.other, depth + 1) if value.other is not None else None
        same = other is value.other and all(entries[key] is value.entries[key] for key in entries)
        return value if same else Mapping(entries, other, value.site)
    if isinstance(value, Choice):
        return join_all([in_order(one, depth + 1) for one in value.options])
    held = value.attrs.get("%facts") if isinstance(value, Instance) else None
    if isinstance(value, Instance) and isinstance(held, Data) and is_listed(held.facts):
        twin = Instance(value.cls, value.site, value.key)
        twin.attrs.update(value.attrs)
        twin.attrs["%facts"] = _stripped(held)
        return twin
    return value


def _stripped(value: Data) -> Data:
    kept = frozenset(source for source in value.facts.sources if source.kind is not SourceKind.LISTING)
    made = Data(replace(value.facts, sources=kept), value.site, value.default)
    made.identity, made.made = value.identity, value.made
    return made
