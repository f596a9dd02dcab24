"""Weights: the modules that hold them, how they come to be, and whose a parameter is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpcheck.execution import calls, randomness
from dpcheck.execution.facts import EVEN, EVEN_UNKNOWN, Facts, Site, Term, replace
from dpcheck.execution.placement import REPLICATE
from dpcheck.execution.values import Data, Generator, Instance, Mapping, Sequence, Value, options

if TYPE_CHECKING:
    from dpcheck.execution.interpreter import Interpreter


MODULE = "torch.nn.Module"
OPTIMIZER = "torch.optim.Optimizer"
PARAMETER = Facts(
    REPLICATE,
    type="tensor",
    lead=EVEN,
    rest=EVEN,
    total=EVEN_UNKNOWN,
    grad=True,
    terms=(Term(REPLICATE),),
    parameter_of=(None,),
)
"""The facts of a parameter of which nobody knows whose it is."""


class Loose:
    """A parameter that the script made by itself, as its own owner for as long as it is set on no module."""

    __slots__ = ("site",)

    def __init__(self, site: Site) -> None:
        self.site = site


def holds_weights(instance: Instance) -> bool:
    return instance.is_a(MODULE) or instance.is_a(OPTIMIZER)


def are_weights(owner: Any) -> bool:
    """Is it what a parameter may belong to?"""
    return owner is None or isinstance(owner, Loose) or (isinstance(owner, Instance) and holds_weights(owner))


def constructing(it: Interpreter, instance: Instance) -> None:
    """A module's constructor begins: what it draws for its weights is collected until `constructed`."""
    if instance.is_a(MODULE):
        it.building.append((instance, randomness.random_state(it, None, "torch"), []))


def constructed(it: Interpreter, instance: Instance, site: Site) -> None:
    """It ends: the outermost module is a model, whose weights the ranks drew alike or not, as those inside it were."""
    if it.building and it.building[-1][0] is instance:
        _, state, drawn = it.building.pop()
        if it.building:
            it.building[-1][2].extend(drawn)
            return
        state = next((each for each in drawn if not each.place.is_replicate), drawn[0] if drawn else state)
        it.record("model", site, instance, state=state, random=bool(drawn))


def setting(it: Interpreter, owner: Instance, name: str, value: Value, site: Site) -> None:
    """An attribute is set on an object: a parameter joins its module."""
    owners = value.facts.parameter_of if isinstance(value, Data) else ()
    fresh = any(isinstance(one, Loose) for one in owners)
    if isinstance(value, Data) and (fresh or owners == PARAMETER.parameter_of) and owner.is_a(MODULE):
        it.trail.set(value.state, "facts", replace(value.facts, parameter_of=(owner,)))
    if not owner.is_a(MODULE):
        return
    if name == "require_backward_grad_sync":
        if not it.building:
            it.record("set sync", site, owner, value=value)
        return
    if isinstance(value, (Instance, Data)) and not it.building:
        it.record("set module attribute", site, owner, name=name, value=value, fresh=fresh)


def entered(it: Interpreter) -> tuple[tuple[Instance, Site], ...]:
    """The modules whose methods are being executed, the outermost first, each with the place that called it."""
    found: list[tuple[Instance, Site]] = []
    for frame in it.frames:
        receiver = frame.receiver
        if isinstance(receiver, Instance) and receiver.is_a(MODULE) and frame.path:
            found.append((receiver, frame.path[-1]))
    return tuple(found)


def owners_of(it: Interpreter, value: Value | None, depth: int = 0) -> tuple[Any, ...]:
    """The modules whose parameters stand somewhere in a value: a list, parameter groups, a state dict, a module."""
    found: dict[int, Any] = {}
    for one in options(value):
        if isinstance(one, Data):
            for owner in one.facts.parameter_of or one.facts.gradient_of:
                found[id(owner)] = owner
        elif isinstance(one, Instance):
            found[id(one)] = one
        elif depth < 4:
            inner: list[Value] = []
            if isinstance(one, Sequence):
                inner = one.items if one.items is not None else [v for v in (one.element,) if v is not None]
            elif isinstance(one, Mapping):
                inner = [*one.entries.values(), *([one.other] if one.other is not None else [])]
            elif isinstance(one, Generator):
                inner = [calls.element(it, one)]
            for part in inner:
                for owner in owners_of(it, part, depth + 1):
                    found[id(owner)] = owner
    return tuple(found.values())
