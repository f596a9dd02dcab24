"""Gradients: backward, hooks, what is done to a gradient before the step, and the steps of users' own optimizers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpcheck.execution import calls, expressions, weights
from dpcheck.execution import facts as facts_
from dpcheck.execution.facts import EVEN, Facts, Site, SourceKind, replace
from dpcheck.execution.placement import UNKNOWN
from dpcheck.execution.values import Data, Function, Instance, Value, options

if TYPE_CHECKING:
    from dpcheck.execution.interpreter import Interpreter


def of_parameter(parameter: Data, site: Site) -> Data:
    """`p.grad`: of the parameter's modules, and this rank's own as long as nothing reduces it."""
    facts = parameter.facts
    return Data(
        Facts(UNKNOWN, type="tensor", lead=EVEN, rest=EVEN, gradient_of=facts.parameter_of, sources=facts.sources), site
    )


def written(it: Interpreter, target: Facts, new: Facts) -> None:
    """`p.grad` (or a buffer made of gradients) was changed in place."""
    _record(it, target.gradient_of, new.gradient_ops[len(target.gradient_ops) :])


def assigned(it: Interpreter, owner: Facts, new: Facts) -> None:
    """`p.grad = …`: a reduced or scaled gradient takes its place, or it is cleared."""
    _record(it, owner.parameter_of, new.gradient_ops)


def _record(it: Interpreter, owners: tuple[Any, ...], operations: tuple[Any, ...]) -> None:
    """Note what was done to the gradients of these modules' parameters: they were scaled, or reduced over the ranks."""
    for operation in operations:
        if len(operation) == 4:
            where, by, divides, value = operation
            it.record("scale gradients", where, owners, by=by, divides=divides, value=value)
        else:
            where, details = operation
            it.record("reduce gradients", where, owners, **details)


def backward(it: Interpreter, value: Value, site: Site) -> None:
    """`value.backward()`: the gradients of a loss are added up, and the hooks of the parameters called with them."""
    for one in options(value):
        facts = expressions.facts_of(it, one)
        facts = replace(facts, terms=facts_.cut(facts))
        # Inside a module's own call (manual optimization) the outermost module is the one that is trained.
        modules = tuple(source.of for source in facts.of_kind(SourceKind.MODULE)) or tuple(it.calling[:1])
        it.record("backward", site, None, facts=facts, modules=modules, value=one)
        for parameter, function, after in it.hooks:
            given = parameter if after else of_parameter(parameter, site)
            result = calls.call(it, function, [given], {}, site)
            made = expressions.facts_of(it, result)
            if not after and made.gradient_of:
                assigned(it, parameter.facts, made)


def hook(it: Interpreter, parameter: Data, function: Value, after: bool) -> None:
    """Have backward call `function` with the gradient, or with the parameter after the gradient was written.

    A hook that only some of the parameters get leaves the scale of their gradients unknown.
    """
    if it.guards:
        it.record("partial hook", it.site(0), parameter.facts.parameter_of)
        return
    if not any(other is function for _, other, _ in it.hooks):
        it.hooks.append((parameter, function, after))


def stepping(it: Interpreter, method: Value, receiver: Value, site: Site) -> None:
    """A `step` that a user's own optimizer class defines is a step, whatever stands in it."""
    while isinstance(method, Function) and isinstance(method.attrs.get("__wrapped__"), Function):
        method = method.attrs["__wrapped__"]
    if isinstance(method, Function) and method.name == "step" and not method.scope.unit.is_stub:
        if isinstance(receiver, Instance) and receiver.is_a(weights.OPTIMIZER):
            it.record("step", site, receiver)
