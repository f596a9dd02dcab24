"""What autograd is told of: no_grad, hooks and backward, and what is written into gradients and weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpcheck.execution import expressions, gradients, states
from dpcheck.execution.facts import NOTHING, Facts, Site, SourceKind, without_gradient
from dpcheck.execution.tensors.operands import Operands, Operation
from dpcheck.execution.values import NONE, TRUE, Data, Value

if TYPE_CHECKING:
    from dpcheck.execution.interpreter import Interpreter


def recorded(it: Interpreter, facts: Facts) -> Facts:
    """The facts as autograd leaves them: under `no_grad` nothing carries gradient."""
    followed = facts.grad or facts.detached is not None
    if followed and it.machine.get("no grad") is True and not facts.parameter_of:
        return without_gradient(facts)
    return facts


def in_place(it: Interpreter, target: Data, result: Value, site: Site) -> None:
    """`target` takes the value `result`; a gradient that is written so has been scaled."""
    facts = expressions.facts_of(it, result)
    if target.facts.gradient_of:
        gradients.written(it, target.facts, facts)
        return
    if target.facts.parameter_of:
        drawn = facts.of_kind(SourceKind.DRAW)
        it.record(
            "initialise weights",
            site,
            target.facts.parameter_of,
            state=drawn[0].of if drawn else None,
            drawn=bool(drawn),
        )
        return
    it.trail.set(target.state, "facts", states.written(it, target, facts, site))


def _hook(given: Operands) -> Value:
    """A function that backward calls with the gradient (or, afterwards, with the parameter)."""
    value, function = given.first(), given.at(1, "hook")
    if isinstance(value, Data) and value.facts.parameter_of and function is not None:
        gradients.hook(given.it, value, function, after=given.name == "register_post_accumulate_grad_hook")
    return NONE


def _requires_grad(given: Operands) -> Value:
    """`requires_grad_`: a parameter is frozen, or trained again. The very same tensor."""
    value = given.first()
    if isinstance(value, Data) and value.facts.parameter_of:
        mode = given.at(1, "requires_grad") or TRUE
        given.it.record("requires grad", given.site, value.facts.parameter_of, value=mode)
    return value if value is not None else Data(NOTHING)


def _backward(given: Operands) -> Value:
    value = given.first()
    if value is not None:
        gradients.backward(given.it, value, given.site)
    return NONE


OPERATIONS: dict[str, Operation] = {
    "requires_grad": _requires_grad,
    "register_hook": _hook,
    "register_post_accumulate_grad_hook": _hook,
    "backward": _backward,
}
