"""Operations: layers with weights, and the tensor operations by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpcheck.execution import expressions, tensors
from dpcheck.execution.builtins import iteration
from dpcheck.execution.facts import EVEN, EVEN_UNKNOWN, NOTHING, Facts, Site, Term, replace
from dpcheck.execution.intrinsics.arguments import Arguments, Table, entries_of, site_of
from dpcheck.execution.placement import SHARD
from dpcheck.execution.values import NONE, Builtin, Data, Value, text_of

if TYPE_CHECKING:
    from dpcheck.execution.interpreter import Interpreter


def _layer(it: Interpreter, a: Arguments, site: Site) -> Value:
    """What a layer with weights makes of its inputs: a tensor with gradient, of the first one's shape and evenness."""
    return Data(_layer_facts(it, a), site)


def _layer_facts(it: Interpreter, a: Arguments) -> Facts:
    given = [expressions.facts_of(it, v) for v in a.values()] or [NOTHING]
    facts = [f for f in given if f.type == "tensor"] or given
    merged = replace(tensors.elementwise(facts), sources=frozenset().union(*(f.sources for f in given)))
    place = merged.place
    if place.is_unknown and any(f.place.is_local for f in facts):
        place = SHARD
    frozen = it.machine.get("no grad") is True
    term = Term(place if place.is_replicate or place.is_unknown else SHARD, unsure=merged.opaque)
    made = replace(merged, type="tensor", place=place, total=EVEN_UNKNOWN, clean=False)
    made = replace(made, grad=not frozen, terms=() if frozen else (term,))
    shape = facts[0]
    if place.is_local and shape.place.is_replicate:
        # Weights that attend to a batch (queries) give a row for each example.
        return replace(made, rest=shape.rest, ndim=None)
    return replace(made, lead=shape.lead, rest=shape.rest, ndim=shape.ndim)


def _embedding(it: Interpreter, a: Arguments, site: Site) -> Value:
    facts = _layer_facts(it, a)
    return Data(replace(facts, ndim=facts.ndim + 1 if facts.ndim is not None else None), site)


def _pooled(it: Interpreter, a: Arguments, site: Site) -> Value:
    """A layer whose output has one entry per row whatever the rest of the input's shape (pooling, flattening)."""
    return Data(replace(_layer_facts(it, a), rest=EVEN, ndim=None), site)


def _operation(it: Interpreter, a: Arguments, site: Site) -> Value:
    """The tensor operation of that name: `operation("sum", [x, dim])`. `at`: carried out where that value was made."""
    args = iteration.exact_items(a.get("args", NONE)) or []
    where = site_of(a.get("at")) or site
    return tensors.call(it, text_of(a["name"]), list(args), entries_of(a.get("kwargs")), where)


def _tensor_function(it: Interpreter, a: Arguments, site: Site) -> Value:
    """The function `name` of a tensor library, for a stub module's `__getattr__`."""
    name = text_of(a["name"])
    return Builtin(name, lambda it, args, kwargs, where: tensors.call(it, name, args, kwargs, where))


INTRINSICS: Table = {
    "layer": (_layer, ("x", "y", "z", "u", "v", "w")),
    "embedding": (_embedding, ("x",)),
    "pooled": (_pooled, ("x", "y")),
    "operation": (_operation, ("name", "args", "kwargs")),
    "tensor_function": (_tensor_function, ("name",)),
}
