"""Modules: wrapped for data-parallel training, called, and the parameters that they hold."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

from dpcheck.execution import calls, expressions, randomness, states, weights
from dpcheck.execution.builtins import iteration
from dpcheck.execution.facts import CONSTANT, EVEN_UNKNOWN, Facts, Site, Source, SourceKind, Term, replace
from dpcheck.execution.intrinsics.arguments import Arguments, Table, entries_of
from dpcheck.execution.intrinsics.nested import each_datum
from dpcheck.execution.placement import REPLICATE, UNKNOWN
from dpcheck.execution.run import parts_of, unwrapped
from dpcheck.execution.values import (
    NONE,
    TRUE,
    Data,
    Instance,
    Mapping,
    Sequence,
    Value,
    is_false,
    is_true,
    options,
    text_of,
)

if TYPE_CHECKING:
    from dpcheck.execution.interpreter import Interpreter


_MOST_MODULES = 40


def _wrap(it: Interpreter, a: Arguments, site: Site) -> Value:
    """`wrapper` trains `module` data-parallel from here on. Returns None."""
    wrapper, module = a["wrapper"], a["module"]
    it.trail.set(it.machine, "group", True)  # wherever it was started

    def truth(name: str, default: bool) -> bool | None:
        return it.truth(a[name]) if name in a else default

    for one in options(module):
        if isinstance(one, (Instance, Data)):
            it.record(
                "wrap",
                site,
                one,
                wrapper=wrapper,
                how=text_of(a.get("how")),
                broadcasts=truth("broadcasts", True),
                averages=truth("averages", True),
                group=a.get("group", NONE),
                shards=truth("shards", False),
                armed=truth("armed", False),
                parts=tuple(parts_of(one)),
                options=a,
            )
            if truth("broadcasts", True):
                _share_buffers(it, one)
    if isinstance(wrapper, Instance) and wrapper is not module:
        it.trail.set(wrapper.attrs, "%module", module)
    elif isinstance(wrapper, Instance):
        it.trail.set(wrapper.attrs, "%wrapped", TRUE)
    return NONE


def _share_buffers(it: Interpreter, module: Value) -> None:
    """Every rank holds rank 0's buffers from here on."""
    for part in parts_of(module):
        for name in states.registered(part):
            value = part.attrs.get(name)
            if isinstance(value, Data):
                it.trail.set(value.state, "facts", replace(value.facts, place=REPLICATE, differs=()))


def _module_call(it: Interpreter, a: Arguments, site: Site) -> Value:
    """`module(*args)`: its forward, noted as the source of what comes out. Only the outermost call counts."""
    module, kwargs = a["module"], a["kwargs"]
    args = iteration.exact_items(a["args"])
    named = entries_of(kwargs)
    if isinstance(kwargs, Mapping) and kwargs.other is not None:
        named["%other"] = kwargs.other
    if args is None:
        named["%other"] = calls.element(it, a["args"])
        args = []
    outermost = not it.calling
    it.calling.append(module)
    try:
        result = calls.call(it, a["forward"], list(args), named, site)
    finally:
        it.calling.pop()
    if not outermost:
        return result
    syncs = module.attrs.get("require_backward_grad_sync") if isinstance(module, Instance) else None
    frozen = it.machine.get("no grad") is True
    it.record("forward", site, module, syncs=syncs, frozen=frozen, entered=weights.entered(it))
    operands = [expressions.facts_of(it, v) for v in (*args, *named.values())]
    made = functools.partial(_made_by, Source(SourceKind.MODULE, site, module), operands, frozen)
    _mark_left_behind(it, module, made)
    return each_datum(it, result, made, depth=3, alike=_unmarked)


def _mark_left_behind(it: Interpreter, module: Value, made: Callable[[Data], Data]) -> None:
    """Notes the module as the source of what its forward left in attributes: a loss, mostly."""
    for part in parts_of(unwrapped(module)):
        for name, value in tuple(part.attrs.items()):
            if isinstance(value, Data) and value.facts.terms and not value.facts.has(SourceKind.MODULE):
                it.trail.set(part.attrs, name, made(value))


def _made_by(source: Source, operands: list[Facts], frozen: bool, value: Data) -> Data:
    """Something that a module returned, with the module noted as its source if it carries gradient."""
    facts = value.facts
    if facts.type in ("str", "bool"):
        return value
    if facts.place.is_unknown and not facts.grad and not facts.terms and not facts.clean:
        # The module was not read. What it returns carries gradient and has a row for each row that went in.
        rows = next((o for o in operands if o.type == "tensor" and not o.parameter_of), None)
        lead = rows.lead if rows is not None else EVEN_UNKNOWN
        facts = replace(facts, grad=True, terms=(Term(UNKNOWN),), lead=lead)
    if not facts.grad:
        return value
    if frozen:
        facts = replace(facts, grad=False, terms=())
    result = Data(replace(facts, sources=facts.sources | {source}), value.site)
    result.identity = value.identity
    return result


def _unmarked(value: Sequence, element: Value | None) -> Sequence:
    """What is known of how a list was put together does not outlast the module that returns it."""
    return Sequence(None, value.kind, element, value.length, value.site)


def _parameters(it: Interpreter, a: Arguments, site: Site) -> Value:
    return Sequence(None, "list", _any_parameter(a["module"], site), replace(CONSTANT, type="int", ndim=0), site)


def _parameter_name(it: Interpreter, a: Arguments, site: Site) -> Value:
    """The name of one of a module's parameters: what is asked of it is asked of some parameters and not of others."""
    source = Source(SourceKind.PARAMETER, site)
    return Data(replace(CONSTANT, type="str", sources=frozenset((source,)), clean=False), site)


def _any_parameter(module: Value, site: Site) -> Data:
    """One parameter that stands for all those of a module."""
    owners = tuple(unwrapped(one) for one in options(module) if isinstance(one, (Instance, Data)))
    return Data(replace(weights.PARAMETER, parameter_of=owners) if owners else weights.PARAMETER, site)


def _modules_of(it: Interpreter, a: Arguments, site: Site) -> Value:
    """The modules whose parameters stand in a value."""
    return Sequence([owner for owner in weights.owners_of(it, a["parameters"]) if isinstance(owner, Instance)])


def _submodules(it: Interpreter, a: Arguments, site: Site) -> Value:
    """A module and the modules inside it, as far as they are known."""
    found: list[Value] = []
    for one in options(a["module"]):
        found += [part for part in parts_of(one) if isinstance(part, Instance) and part.is_a(weights.MODULE)]
    return Sequence(list(dict.fromkeys(found))[:_MOST_MODULES])


def _train_mode(it: Interpreter, a: Arguments, site: Site) -> Value:
    """A module and all modules inside it train from here on, or they do not."""
    module, mode = a["module"], a["mode"]
    for part in parts_of(module):
        if part.is_a(weights.MODULE):
            it.trail.set(part.attrs, "training", mode)
    it.record("train mode", site, module, mode=mode)
    return NONE


def _state_dict(it: Interpreter, a: Arguments, site: Site) -> Value:
    return Mapping({}, _any_parameter(a["module"], site), site)


def _load_state(it: Interpreter, a: Arguments, site: Site) -> Value:
    for one in options(a["module"]):
        it.record("load weights", site, (unwrapped(one),), state=a.get("state", NONE))
    return NONE


def _parameter(it: Interpreter, a: Arguments, site: Site) -> Value:
    """A new parameter that belongs to the module it is set on. `drawn`: its values come from torch's random state."""
    if it.building and is_true(a.get("drawn")):
        it.building[-1][2].append(randomness.random_state(it, None, "torch"))
    elif it.building:
        data = expressions.facts_of(it, a.get("data", NONE))
        it.building[-1][2].extend(source.of for source in data.of_kind(SourceKind.DRAW))
    return Data(replace(weights.PARAMETER, parameter_of=(weights.Loose(site),)), site)


def _initialise(it: Interpreter, a: Arguments, site: Site) -> Value:
    """`torch.nn.init` and `reset_parameters`: weights are drawn (or set) anew."""
    target = a["tensor"]
    facts = expressions.facts_of(it, target)
    drawn = not is_false(a.get("drawn", TRUE))
    state = randomness.random_state(it, a.get("generator"), "torch")
    if it.building and drawn:
        it.building[-1][2].append(state)
    elif facts.parameter_of:
        it.record("initialise weights", site, facts.parameter_of, state=state, drawn=drawn)
    return target


INTRINSICS: Table = {
    "wrap": (_wrap, ("wrapper", "module", "how")),
    "parameters": (_parameters, ("module",)),
    "parameter_name": (_parameter_name, ()),
    "state_dict": (_state_dict, ("module",)),
    "load_state": (_load_state, ("module", "state")),
    "parameter": (_parameter, ("data",)),
    "initialise": (_initialise, ("tensor",)),
    "module_call": (_module_call, ("module", "forward", "args", "kwargs")),
    "train_mode": (_train_mode, ("module", "mode")),
    "submodules": (_submodules, ("module",)),
    "modules_of": (_modules_of, ("parameters",)),
}
