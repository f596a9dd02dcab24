"""Operations by name: `x.sum()`, `torch.sum(x)` and `np.sum(x)` are one operation, in one table.

An operation that is not in the table joins its operands' placements and is never even.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpcheck.execution import divisions
from dpcheck.execution.facts import EVEN_UNKNOWN, Facts, Site, replace
from dpcheck.execution.tensors import (
    arithmetic,
    assembly,
    autograd,
    comparison,
    conversion,
    coupling,
    creation,
    markers,
    reduction,
    rows,
    selection,
    shapes,
    sizes,
)
from dpcheck.execution.tensors.combining import elementwise
from dpcheck.execution.tensors.operands import Operands, Operation
from dpcheck.execution.values import Data, Sequence, Value

if TYPE_CHECKING:
    from dpcheck.execution.interpreter import Interpreter

OPERATIONS: dict[str, Operation] = {
    **arithmetic.OPERATIONS,
    **comparison.OPERATIONS,
    **reduction.OPERATIONS,
    **sizes.OPERATIONS,
    **shapes.OPERATIONS,
    **assembly.OPERATIONS,
    **rows.OPERATIONS,
    **creation.OPERATIONS,
    **selection.OPERATIONS,
    **markers.OPERATIONS,
    **conversion.OPERATIONS,
    **autograd.OPERATIONS,
}


def call(it: Interpreter, name: str, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """`torch.name(*args)` or `args[0].name(…)`."""
    writes = name.endswith("_") and not name.endswith("__")
    given = Operands(it, args, kwargs, site, name.rstrip("_") if writes else name)
    operation = OPERATIONS.get(given.name)
    result = operation(given) if operation is not None else given.result(_unlisted(given))
    for operand in _parts(args[:1]):
        divisions.pass_on(operand, result)
    if isinstance(result, Data) and result not in args:
        result = coupling.noted(result, given)
        kept = autograd.recorded(it, result.facts) if result.facts.grad else result.facts
        if kept is not result.facts:
            result = Data(kept, result.site)
    if writes and args and isinstance(args[0], Data):
        if given.name in ("index_copy", "scatter", "index_put"):
            it.record("trim", site, result)
        autograd.in_place(it, args[0], result, site)
        return args[0]
    out = kwargs.get("out")
    if isinstance(out, Data):
        autograd.in_place(it, out, result, site)
    return result


def _parts(args: list[Value]) -> list[Value]:
    """The operands, also where they are handed over in one list."""
    return [part for arg in args for part in (arg, *((arg.items or []) if isinstance(arg, Sequence) else []))]


def _unlisted(given: Operands) -> Facts:
    operands = given.varying()
    # A size or an offset beside tensors says where, not what.
    operands = [o for o in operands if o.type == "tensor" or o.grad or not o.place.is_replicate] or operands
    return replace(
        elementwise(operands),
        type="tensor",
        ndim=None,
        lead=EVEN_UNKNOWN,
        rest=EVEN_UNKNOWN,
        total=EVEN_UNKNOWN,
        axis=0,
    )
