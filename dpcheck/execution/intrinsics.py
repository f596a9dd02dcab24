"""What the framework stubs cannot say in Python: rank and world, collectives, gradients, random states, the record.

A stub imports these by name from `dpcheck_intrinsics`. `docs/stubs.md` describes each for those who write stubs.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dpcheck.execution import builtins, calls, expressions, placement, tensors
from dpcheck.execution import facts as facts_
from dpcheck.execution.facts import (
    CONSTANT,
    EVEN,
    EVEN_UNKNOWN,
    NOTHING,
    Cut,
    Evidence,
    Facts,
    Site,
    Source,
    SourceKind,
    Term,
    replace,
    uneven,
)
from dpcheck.execution.placement import REPLICATE, SHARD, UNKNOWN, WORLD_SIZE, Kind, Placement
from dpcheck.execution.run import parts_of
from dpcheck.execution.trail import element_of, join
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
    Mapping,
    Partial,
    Sequence,
    Value,
    options,
)
from dpcheck.program import records as r

if TYPE_CHECKING:
    from dpcheck.execution.interpreter import Interpreter

Arguments = dict[str, Value]


class Given(Arguments):
    """What an intrinsic was given, by name. What a wrong or half-read program leaves out is unknown."""

    def __missing__(self, name: str) -> Value:
        return Data(NOTHING)


_MODULE = "torch.nn.Module"
_MOST_MODULES = 40


# ---------------------------------------------------------------- random states


@dataclasses.dataclass(frozen=True, slots=True)
class RandomState:
    """A generator of random numbers as it stands: seeded by what and where, or never seeded.

    `place` is that of its draws: Replicate when all ranks draw alike, Shard when each draws its own.
    """

    place: Placement
    seeded: bool
    site: Site | None = None
    sources: frozenset[Source] = frozenset()

    @property
    def by_rank(self) -> bool:
        return any(source.kind in (SourceKind.RANK, SourceKind.LOCAL_RANK) for source in self.sources)


_UNSEEDED = RandomState(SHARD, seeded=False)
_UNKNOWN_STATE = RandomState(UNKNOWN, seeded=False)


def random_state(it: Interpreter, generator: Value | None, library: str) -> RandomState:
    """The state that a draw takes: the generator's, or the library's global one."""
    for one in options(generator):
        if isinstance(one, Instance):
            seed = one.attrs.get("seed_value")
            if isinstance(seed, Const) and seed.value is None:
                return _UNSEEDED if _is_true(one.attrs.get("fresh")) else RandomState(REPLICATE, True, one.site)
            if seed is not None:
                return _seeded(it, seed, getattr(seed, "site", None) or one.site)
            return _UNKNOWN_STATE
        if not (isinstance(one, Const) and one.value is None):
            return _UNKNOWN_STATE
    state = it.machine.get(f"random {library}")
    if isinstance(state, RandomState):
        return state
    return _UNKNOWN_STATE if it.machine.get("maybe seeded") else _UNSEEDED


def _seeded(it: Interpreter, seed: Value, site: Site | None) -> RandomState:
    facts = expressions.facts_of(it, seed)
    place = facts.place
    if place.is_replicate:
        place = SHARD if facts.has(SourceKind.TIME) else REPLICATE
    elif facts.has(SourceKind.RANK) or facts.has(SourceKind.LOCAL_RANK) or place.is_local:
        place = SHARD
    return RandomState(place, True, site, facts.sources)


def draw(it: Interpreter, state: RandomState, site: Site, single: bool = False) -> Source:
    """A draw from a state. `single`: of one number, whatever the batch."""
    it.record("draw", site, None, state=state, single=single)
    return Source(SourceKind.DRAW, site, state, tuple(it.loops))


def draw_place(state: RandomState) -> Placement:
    return state.place


def _seed(it: Interpreter, library: Value, seed: Value, site: Site) -> None:
    state = dataclasses.replace(_seeded(it, seed, site), site=site)
    if isinstance(seed, Const) and seed.value is None:
        state = _UNSEEDED
    names = ("torch", "numpy", "python") if _text(library) == "all" else (_text(library),)
    for name in names:
        it.trail.set(it.machine, f"random {name}", state)
    it.record("seed", site, None, library=_text(library), state=state)


def note_unknown_call(it: Interpreter, name: str) -> None:
    """Code that was not read may have seeded the generators and started the group: from here on nobody knows."""
    if not it.machine.get("unread"):
        it.trail.set(it.machine, "unread", True)
    for library in ("torch", "numpy", "python"):
        if not isinstance(it.machine.get(f"random {library}"), RandomState):
            it.trail.set(it.machine, "maybe seeded", True)


# ---------------------------------------------------------------- modules, parameters, gradients


def holds_weights(instance: Instance) -> bool:
    return instance.is_a(_MODULE) or instance.is_a("torch.optim.Optimizer")


def constructing(it: Interpreter, instance: Instance, site: Site) -> None:
    if instance.is_a(_MODULE):
        it.building.append((instance, random_state(it, None, "torch"), []))


def constructed(it: Interpreter, instance: Instance, site: Site) -> None:
    if it.building and it.building[-1][0] is instance:
        _, state, drawn = it.building.pop()
        if it.building:
            it.building[-1][2].extend(drawn)
            return
        state = next((each for each in drawn if not each.place.is_replicate), drawn[0] if drawn else state)
        it.record("model", site, instance, state=state, random=bool(drawn))


def stepping(it: Interpreter, method: Value, receiver: Value, site: Site) -> None:
    """A `step` that a user's own optimizer class defines is a step, whatever stands in it."""
    while isinstance(method, Function) and isinstance(method.attrs.get("__wrapped__"), Function):
        method = method.attrs["__wrapped__"]
    if isinstance(method, Function) and method.name == "step" and not method.scope.unit.is_stub:
        if isinstance(receiver, Instance) and receiver.is_a("torch.optim.Optimizer"):
            it.record("step", site, receiver)


def setting(it: Interpreter, owner: Instance, name: str, value: Value, site: Site) -> None:
    """An attribute is set on an object: a parameter joins its module."""
    if isinstance(value, Data) and value.facts.parameter_of == (None,) and owner.is_a(_MODULE):
        it.trail.set(value.state, "facts", replace(value.facts, parameter_of=(owner,)))
    if name == "require_backward_grad_sync" or not owner.is_a(_MODULE):
        return
    if isinstance(value, (Instance, Data)) and owner.is_a(_MODULE) and not it.building:
        it.record("set module attribute", site, owner, name=name, value=value)


def _parameter_facts(owner: Any, place: Placement = REPLICATE) -> Facts:
    return Facts(
        REPLICATE,
        type="tensor",
        lead=EVEN,
        rest=EVEN,
        total=EVEN_UNKNOWN,
        grad=True,
        terms=(Term(REPLICATE),),
        parameter_of=(owner,),
    )


def gradient(it: Interpreter, parameter: Data, site: Site) -> Value:
    facts = parameter.facts
    return Data(
        Facts(UNKNOWN, type="tensor", lead=EVEN, rest=EVEN, gradient_of=facts.parameter_of, sources=facts.sources), site
    )


def gradient_written(it: Interpreter, target: Facts, new: Facts, site: Site) -> None:
    """`p.grad` (or a buffer made of gradients) was changed in place."""
    for where, by, divides, value in new.gradient_ops[len(target.gradient_ops) :]:
        it.record("scale gradients", where, target.gradient_of, by=by, divides=divides, value=value)


def gradient_assigned(it: Interpreter, owner: Facts, new: Facts, site: Site) -> None:
    """`p.grad = …`: a reduced or scaled gradient takes its place, or it is cleared."""
    for operation in new.gradient_ops:
        if len(operation) == 4:
            where, by, divides, value = operation
            it.record("scale gradients", where, owner.parameter_of, by=by, divides=divides, value=value)
        else:
            where, details = operation
            it.record("reduce gradients", where, owner.parameter_of, **details)


def record_backward(it: Interpreter, value: Value, site: Site) -> None:
    for one in options(value):
        facts = expressions.facts_of(it, one)
        facts = replace(facts, terms=facts_.cut(facts))
        # Inside a module's own call (manual optimization) the outermost module is the one that is trained.
        modules = tuple(source.of for source in facts.of_kind(SourceKind.MODULE)) or tuple(it.calling[:1])
        it.record("backward", site, None, facts=facts, modules=modules, value=one)
        for parameter, function, after in it.hooks:
            given = parameter if after else gradient(it, parameter, site)
            result = calls.call(it, function, [given], {}, site)
            made = expressions.facts_of(it, result)
            if not after and made.gradient_of:
                gradient_assigned(it, parameter.facts, made, site)


def hook(it: Interpreter, parameter: Data, function: Value, after: bool) -> None:
    """Have backward call `function` with the gradient, or with the parameter after the gradient was written.

    A hook that only some of the parameters get leaves the scale of their gradients unknown.
    """
    if it.guards:
        it.record("partial hook", it.site(0), parameter.facts.parameter_of)
        return
    if not any(other is function for _, other, _ in it.hooks):
        it.hooks.append((parameter, function, after))


# ---------------------------------------------------------------- collectives


def all_reduced(it: Interpreter, facts: Facts, op: str, site: Site, differentiable: bool) -> Facts:
    """The facts of a tensor after an all-reduce: the same on every rank."""
    reduce_place = placement.all_reduce_sum if op == "sum" else placement.all_reduce_mean
    terms: tuple[Term, ...] = ()
    if facts.grad:
        if differentiable:
            terms = tuple(dataclasses.replace(t, place=reduce_place(t.place), counted=False) for t in facts.terms)
        elif facts.opaque:
            terms = tuple(dataclasses.replace(t, place=UNKNOWN) for t in facts.terms)  # a count, perhaps
        else:
            # The value is all ranks', the gradient this rank's share of it alone.
            terms = tuple(
                dataclasses.replace(t, place=placement.divide(reduce_place(t.place), WORLD_SIZE), detached=Cut(site))
                for t in facts.terms
            )
    parts = tuple(all_reduced(it, part, op, site, differentiable) for part in facts.parts) if facts.parts else None
    place = reduce_place(facts.place)
    if facts.place.is_unknown and not facts.grad:
        # Whatever it was, it is a sum (or mean) over the ranks now.
        place = Placement(Kind.REPLICATE, world=1 if op == "sum" else 0)
    cuts = facts.grad and not facts.opaque and not differentiable
    return replace(
        facts,
        place=place,
        total=EVEN,
        terms=terms,
        parts=parts,
        reduced=site,
        summed=facts.total,
        mask=False,
        clean=False,
        detached=Cut(site) if cuts else facts.detached,
        coupled=None,
    )


def _all_reduce(it: Interpreter, a: Arguments, site: Site) -> Value:
    target = a["tensor"]
    op = _text(a.get("op", Const("sum")))
    group = a.get("group", NONE)
    differentiable = a.get("differentiable", FALSE) is TRUE or _is_true(a.get("differentiable"))
    in_place = not _is_false(a.get("in_place", TRUE))
    it.record("collective", site, target, name="all_reduce", op=op, group=group)
    results = [_reduce_one(it, one, op, group, site, differentiable, in_place) for one in options(target)]
    result = results[0] if results else NONE
    for other in results[1:]:
        result = join(result, other)
    return result


def _reduce_one(
    it: Interpreter, target: Value, op: str, group: Value, site: Site, differentiable: bool, in_place: bool
) -> Value:
    if isinstance(target, Sequence):
        items = target.items
        if items is not None:
            made = [_reduce_one(it, item, op, group, site, differentiable, in_place) for item in items]
            return Sequence(made, target.kind)
        if target.element is not None:
            return Sequence(
                None,
                target.kind,
                _reduce_one(it, target.element, op, group, site, differentiable, in_place),
                target.length,
            )
        return target
    if isinstance(target, Mapping):
        entries = {k: _reduce_one(it, v, op, group, site, differentiable, in_place) for k, v in target.entries.items()}
        other = target.other
        return Mapping(entries, _reduce_one(it, other, op, group, site, differentiable, in_place) if other else None)
    facts = expressions.facts_of(it, target)
    if facts.gradient_of:
        details = {"op": op, "group": group}
        if in_place:
            it.record("reduce gradients", site, facts.gradient_of, **details)
            return target
        return Data(replace(facts, gradient_ops=(*facts.gradient_ops, (site, details))), site)
    if facts.parameter_of and in_place and isinstance(target, Data):
        it.record("broadcast weights", site, facts.parameter_of, by="all_reduce")
        return target
    _note_group(it, site, group, again=facts.reduced is not None)
    new = all_reduced(it, facts, op, site, differentiable)
    if in_place and isinstance(target, Data):
        it.trail.set(target.state, "facts", new)
        return target
    return Data(new, site)


def _note_group(it: Interpreter, site: Site, group: Value, again: bool) -> None:
    """Note the group that a collective works on: not known where it is now this one and now that, or the second one.

    A count that is added up over one group and then over another may have reached every rank.
    """
    known = it.run.groups.get(site)
    same = known is None or known is group or set(map(_member, options(known))) == set(map(_member, options(group)))
    narrow = any(isinstance(one, Instance) for one in options(group))
    it.run.groups[site] = group if same and not (again and narrow) else Data(NOTHING)


def _member(group: Value) -> object:
    return group.value if isinstance(group, Const) else group


def _gathered_place(place: Placement, stacked: bool) -> Placement:
    every = placement.gather(place)
    return every if stacked or every.is_unknown else dataclasses.replace(every, spread=False)


def gathered(it: Interpreter, facts: Facts, site: Site, differentiable: bool, stacked: bool) -> Facts:
    """What every rank holds after a gather: one rank's value as an element, or all of them along the first dimension.

    Under `no_grad` the script itself says that no gradient is meant to flow.
    """
    frozen = it.machine.get("no grad") is True
    cuts = facts.grad and not facts.opaque and not differentiable and not frozen
    terms: tuple[Term, ...] = ()
    if facts.grad and differentiable:
        # Its backward adds up what the ranks' losses say of each row: as if the loss were one, over all rows.
        terms = tuple(dataclasses.replace(t, place=_gathered_place(t.place, stacked)) for t in facts.terms)
    if facts.place.is_unknown and not facts.grad:
        place = Placement(Kind.REPLICATE, spread=stacked)  # whatever it was
    else:
        place = _gathered_place(facts.place, stacked)
    return replace(
        facts,
        place=place,
        grad=facts.grad and differentiable,
        terms=terms,
        reduced=site,
        summed=facts.total,
        detached=Cut(site) if cuts else facts.detached,
        coupled=None,
        total=EVEN if not stacked or facts.ndim == 0 else facts.total,
        lead=EVEN if stacked else facts.lead,
        ndim=(max(facts.ndim, 1) if stacked else facts.ndim) if facts.ndim is not None else None,
    )


def _all_gather(it: Interpreter, a: Arguments, site: Site) -> Value:
    """Returns the list of all ranks' tensors; `into` receives them in place when it is given."""
    target = a["tensor"]
    differentiable = _is_true(a.get("differentiable"))
    group = a.get("group", NONE)
    it.record("collective", site, target, name=_text(a.get("name")) or "all_gather", op="", group=group)
    facts = expressions.facts_of(it, target)
    _note_group(it, site, group, again=False)
    element = Data(gathered(it, facts, site, differentiable, stacked=False), site)
    world = Facts(WORLD_SIZE, type="int", total=EVEN, lead=EVEN, rest=EVEN, ndim=0)
    into = a.get("into")
    for one in options(into):
        if isinstance(one, Sequence):
            it.trail.set(one.state, "content", Content(None, element, world))
        elif isinstance(one, Data):
            it.trail.set(one.state, "facts", gathered(it, facts, site, differentiable, stacked=True))
    return Sequence(None, "list", element, world, site)


def _gather_stacked(it: Interpreter, a: Arguments, site: Site) -> Value:
    """accelerate's `gather`: all ranks' rows in one tensor, through lists and dictionaries."""
    target = a["tensor"]
    it.record("collective", site, target, name="all_gather", op="", group=NONE)
    return _stacked(it, target, site, _is_true(a.get("differentiable")))


def _stacked(it: Interpreter, target: Value, site: Site, differentiable: bool) -> Value:
    if isinstance(target, Sequence):
        if target.items is not None:
            return Sequence([_stacked(it, item, site, differentiable) for item in target.items], target.kind)
        element = target.element
        return Sequence(
            None, target.kind, _stacked(it, element, site, differentiable) if element else None, target.length
        )
    if isinstance(target, Mapping):
        return Mapping({k: _stacked(it, v, site, differentiable) for k, v in target.entries.items()}, target.other)
    if isinstance(target, Choice):
        made = [_stacked(it, option, site, differentiable) for option in target.options]
        result = made[0]
        for one in made[1:]:
            result = join(result, one)
        return result
    return Data(gathered(it, expressions.facts_of(it, target), site, differentiable, stacked=True), site)


def _broadcast(it: Interpreter, a: Arguments, site: Site) -> Value:
    """One rank's value on every rank; parameters handed in so are made equal."""
    target = a["tensor"]
    it.record("collective", site, target, name="broadcast", op="", group=a.get("group", NONE))
    for one in options(target):
        _broadcast_one(it, one, site)
    return target


def _broadcast_one(it: Interpreter, target: Value, site: Site) -> None:
    if isinstance(target, Sequence):
        for item in target.items or [v for v in (target.element,) if v is not None]:
            _broadcast_one(it, item, site)
        if target.items is None or all(isinstance(i, Const) for i in target.items):
            it.trail.set(target.state, "content", Content(None, Data(replace(CONSTANT, type=""))))
    elif isinstance(target, Mapping):
        for item in [*target.entries.values(), *([target.other] if target.other else [])]:
            _broadcast_one(it, item, site)
    elif isinstance(target, Instance):
        it.record("broadcast weights", site, (target,), by="broadcast")
    elif isinstance(target, Data):
        facts = target.facts
        if facts.parameter_of:
            it.record("broadcast weights", site, facts.parameter_of, by="broadcast")
            return
        kept = frozenset(
            s
            for s in facts.sources
            if s.kind not in (SourceKind.RANK, SourceKind.LOCAL_RANK, SourceKind.DRAW, SourceKind.TIME)
        )
        it.trail.set(target.state, "facts", replace(facts, place=REPLICATE, total=EVEN, sources=kept))


def _hand_written(it: Interpreter, a: Arguments, site: Site) -> Value:
    """An autograd function: `forward()`, and `backward(gradient)` that says what reaches `args`.

    Where the forward holds no collective, autograd might as well see into it.
    """
    seen = len(it.run.events)
    result = calls.call(it, a["forward"], [], {}, site)
    operands = [expressions.facts_of(it, value) for value in builtins.exact_items(it, a["args"], None) or []]
    given = [facts for facts in operands if facts.grad]
    inside = [event for event in it.run.events[seen:] if event.kind == "collective"]
    if not inside or not given:
        return result
    mark, recorded, unread = it.trail.mark(), len(it.run.events), it.unread_calls
    gradient = Data(Facts(SHARD, type="tensor", lead=EVEN, rest=EVEN), site)
    back = calls.call(it, a["backward"], [gradient], {}, site)
    communicates = any(event.kind == "collective" for event in it.run.events[recorded:]) or it.unread_calls > unread
    del it.run.events[recorded:]
    it.trail.undo(mark)
    returned = [expressions.facts_of(it, value) for value in _first_item(it, back)]
    places = {facts.place.world for facts in returned if not facts.place.is_unknown}
    known = len(places) == 1 and not any(facts.place.is_unknown for facts in returned)
    world = places.pop() if known else None
    gathers = any(event.name != "all_reduce" for event in inside)
    terms = []
    for term in dict.fromkeys(term for facts in given for term in facts.terms):
        place = UNKNOWN
        if world is not None and not term.place.is_unknown:
            place = Placement(Kind.REPLICATE, world=term.place.world + world - (1 if gathers else 0))
        terms.append(dataclasses.replace(term, place=place))
    cut = None if communicates else Cut(inside[-1].site, written=True)
    return _with_terms(it, result, tuple(terms), cut)


def _first_item(it: Interpreter, value: Value) -> list[Value]:
    """The gradient of the first argument."""
    items = builtins.exact_items(it, value, None) if isinstance(value, Sequence) else None
    return list(options(items[0] if items else value))


def _with_terms(it: Interpreter, value: Value, terms: tuple[Term, ...], cut: Cut | None) -> Value:
    """A value (or a list of values) that carries these terms."""
    if isinstance(value, Sequence):
        if value.items is not None:
            return Sequence([_with_terms(it, item, terms, cut) for item in value.items], value.kind, site=value.site)
        element = _with_terms(it, value.element, terms, cut) if value.element is not None else None
        return builtins._alike(value, element)
    if not isinstance(value, Data):
        return value
    spread = value.facts.place.is_replicate and value.facts.place.spread
    held = tuple(
        dataclasses.replace(term, place=dataclasses.replace(term.place, spread=spread))
        if term.place.is_replicate
        else term
        for term in terms
    )
    return Data(replace(value.facts, grad=True, terms=held, detached=cut), value.site)


# ---------------------------------------------------------------- the table


def _text(value: Value | None) -> str:
    return str(value.value) if isinstance(value, Const) else ""


def _is_true(value: Value | None) -> bool:
    return isinstance(value, Const) and value.value is True


def _is_false(value: Value | None) -> bool:
    return isinstance(value, Const) and value.value is False


def _scalar(place: Placement, source: Source | None, identity: object) -> Data:
    facts = Facts(
        place,
        type="int",
        lead=EVEN,
        rest=EVEN,
        total=EVEN,
        ndim=0,
        sources=frozenset((source,)) if source is not None else frozenset(),
    )
    value = Data(facts)
    value.identity = identity
    return value


def _rank(it: Interpreter, a: Arguments, site: Site) -> Value:
    return _scalar(Placement(Kind.LOCAL), Source(SourceKind.RANK, site), "rank")


def _local_rank(it: Interpreter, a: Arguments, site: Site) -> Value:
    return _scalar(Placement(Kind.LOCAL), Source(SourceKind.LOCAL_RANK, site), "local rank")


def _world_size(it: Interpreter, a: Arguments, site: Site) -> Value:
    return _scalar(WORLD_SIZE, None, "world size")


def _device_count(it: Interpreter, a: Arguments, site: Site) -> Value:
    return _scalar(REPLICATE, Source(SourceKind.DEVICE_COUNT, site), "device count")


def _environment(it: Interpreter, a: Arguments, site: Site) -> Value:
    """An environment variable: the launcher's are set in a data-parallel run, others may be."""
    name = a["name"]
    default = a.get("default")
    known = {
        "RANK": _rank,
        "LOCAL_RANK": _local_rank,
        "WORLD_SIZE": _world_size,
        "LOCAL_WORLD_SIZE": _device_count,
        "OMPI_COMM_WORLD_RANK": None,
    }
    if isinstance(name, Const):
        maker = known.get(str(name.value))
        if maker is not None:
            it.machine.setdefault("launched", site)
            return maker(it, a, site)
        if name.value in ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID"):
            return Data(replace(CONSTANT, type="str"))
        absent = ("SLURM_", "OMPI_", "PMI_", "MV2_", "JSM_", "KUBERNETES", "AZ_", "XLA_", "TPU_", "COLAB", "SM_")
        if str(name.value).startswith(absent):
            return default if default is not None else NONE
        source = Source(SourceKind.OPTION, site)
        value = Data(
            replace(CONSTANT, type="str" if default is None else "", sources=frozenset((source,))), site, default
        )
        value.identity = ("environment", str(name.value))
        if isinstance(default, Const) and default.value is None:
            return value
        return value
    return Data(replace(CONSTANT, type="str"))


def _in_environment(it: Interpreter, a: Arguments, site: Site) -> Value:
    name = _text(a["name"])
    if name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        return TRUE
    if name.startswith(
        ("SLURM_", "OMPI_", "PMI_", "MV2_", "JSM_", "KUBERNETES", "AZ_", "XLA_", "TPU_", "COLAB", "SM_")
    ):
        return FALSE
    value = Data(replace(CONSTANT, type="bool"))
    value.identity = ("in environment", name)
    return value


def _start_group(it: Interpreter, a: Arguments, site: Site) -> Value:
    """init_process_group: the rank and world size handed in are the rank and the world size."""
    for name, maker in (("rank", _rank), ("world_size", _world_size)):
        value = a.get(name)
        for one in options(value):
            if isinstance(one, Data) and one.identity not in ("rank", "world size"):
                it.unified[one] = maker(it, {}, site)
    it.record("group", site, None, backend=a.get("backend"))
    it.trail.set(it.machine, "group", True)
    return NONE


def _group_started(it: Interpreter, a: Arguments, site: Site) -> Value:
    if it.machine.get("group") or not it.run.starts_group:
        return TRUE
    if not it.machine.get("unread"):
        return FALSE
    started = Data(replace(CONSTANT, type="bool"), site)  # by code that was not read, perhaps
    started.identity = "group started"
    return started


def _new_group(it: Interpreter, a: Arguments, site: Site) -> Value:
    it.record("new group", site, a.get("group"), ranks=a.get("ranks", NONE))
    return NONE


def _launch(it: Interpreter, a: Arguments, site: Site) -> Value:
    """Start `function` in one process a rank: its first argument is the rank; the number of processes is W.

    With `ranked` False (multiprocessing.Process in a loop) the arguments are as they stand.
    """
    function = a["function"]
    processes = a.get("processes")
    world = _world_size(it, {}, site)
    given = builtins.exact_items(it, a.get("args", NONE), None) or []
    args: list[Value] = []
    for value in given:
        same = processes is not None and _same_number(value, processes)
        args.append(world if same else value)
    if processes is not None and isinstance(processes, Data):
        it.unified[processes] = world
    it.record("launch", site, function)
    if _is_false(a.get("ranked", TRUE)):
        rank = _rank(it, {}, site)
        args = [rank if isinstance(v, Data) and v.facts.has(SourceKind.COUNTER) else v for v in args]
        named = a.get("kwargs")
        kwargs = dict(named.entries) if isinstance(named, Mapping) else {}
        return calls.call(it, function, args, {str(k): v for k, v in kwargs.items()}, site)
    return calls.call(it, function, [_rank(it, {}, site), *args], {}, site)


def _same_number(a: Value, b: Value) -> bool:
    if a is b:
        return True
    if isinstance(a, Const) and isinstance(b, Const):
        return a.value == b.value and a.site is not None and a.site == b.site
    return isinstance(a, Data) and isinstance(b, Data) and a.identity is b.identity


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
                how=_text(a.get("how")),
                broadcasts=truth("broadcasts", True),
                averages=truth("averages", True),
                group=a.get("group", NONE),
                shards=truth("shards", False),
                options=a,
            )
    if isinstance(wrapper, Instance) and wrapper is not module:
        it.trail.set(wrapper.attrs, "%module", module)
    elif isinstance(wrapper, Instance):
        it.trail.set(wrapper.attrs, "%wrapped", TRUE)
    return NONE


def _broadcast_parameters(it: Interpreter, a: Arguments, site: Site) -> Value:
    _broadcast_one(it, a["parameters"], site)
    owners = owners_of(it, a["parameters"])
    it.record("broadcast weights", site, owners, by="broadcast")
    return NONE


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


def _reduce_gradients(it: Interpreter, a: Arguments, site: Site) -> Value:
    owners = owners_of(it, a["parameters"])
    it.record("reduce gradients", site, owners, op=_text(a.get("op", Const("mean"))), group=a.get("group", NONE))
    return NONE


def _scale_gradients(it: Interpreter, a: Arguments, site: Site) -> Value:
    owners = owners_of(it, a["parameters"])
    by = expressions.facts_of(it, a["factor"])
    it.record("scale gradients", site, owners, by=by, divides=_is_true(a.get("divides")), value=a["factor"])
    return NONE


def _clip(it: Interpreter, a: Arguments, site: Site) -> Value:
    it.record("clip", site, owners_of(it, a["parameters"]), how=_text(a.get("how")))
    return Data(replace(NOTHING, type="tensor", ndim=0), site)


def _parameters(it: Interpreter, a: Arguments, site: Site) -> Value:
    module = a["module"]
    owners = tuple(one for one in options(module) if isinstance(one, (Instance, Data)))
    inner = tuple(_unwrapped(one) for one in owners)
    facts = replace(_parameter_facts(None), parameter_of=inner or (None,))
    return Sequence(None, "list", Data(facts, site), replace(CONSTANT, type="int", ndim=0), site)


def _unwrapped(value: Any) -> Any:
    while isinstance(value, Instance) and isinstance(value.attrs.get("%module"), Instance):
        value = value.attrs["%module"]
    return value


def _state_dict(it: Interpreter, a: Arguments, site: Site) -> Value:
    parameters = _parameters(it, a, site)
    assert isinstance(parameters, Sequence)
    return Mapping({}, parameters.element, site)


def _parameter(it: Interpreter, a: Arguments, site: Site) -> Value:
    """A new parameter that belongs to the module it is set on. `drawn`: its values come from torch's random state."""
    data = a.get("data", NONE)
    facts = expressions.facts_of(it, data)
    if it.building and _is_true(a.get("drawn")):
        it.building[-1][2].append(random_state(it, None, "torch"))
    elif it.building:
        it.building[-1][2].extend(source.of for source in facts.of_kind(SourceKind.DRAW))
    return Data(_parameter_facts(None), site)


def _load_state(it: Interpreter, a: Arguments, site: Site) -> Value:
    for one in options(a["module"]):
        it.record("load weights", site, (_unwrapped(one),), state=a.get("state", NONE))
    return NONE


def _initialise(it: Interpreter, a: Arguments, site: Site) -> Value:
    """torch.nn.init and reset_parameters: weights are drawn (or set) anew."""
    target = a["tensor"]
    facts = expressions.facts_of(it, target)
    drawn = not _is_false(a.get("drawn", TRUE))
    state = random_state(it, a.get("generator"), "torch")
    if it.building and drawn:
        it.building[-1][2].append(state)
    elif facts.parameter_of:
        it.record("initialise weights", site, facts.parameter_of, state=state, drawn=drawn)
    return target


def _module_call(it: Interpreter, a: Arguments, site: Site) -> Value:
    """`module(*args)`: its forward, noted as the source of what comes out. Only the outermost call counts."""
    module, forward = a["module"], a["forward"]
    args = builtins.exact_items(it, a["args"], None)
    kwargs = a["kwargs"]
    named = {str(k): v for k, v in kwargs.entries.items()} if isinstance(kwargs, Mapping) else {}
    if isinstance(kwargs, Mapping) and kwargs.other is not None:
        named["%other"] = kwargs.other
    if args is None:
        named["%other"] = calls.element(it, a["args"])
        args = []
    outermost = not it.calling
    it.calling.append(module)
    try:
        result = calls.call(it, forward, list(args), named, site)
    finally:
        it.calling.pop()
    if outermost:
        syncs = module.attrs.get("require_backward_grad_sync") if isinstance(module, Instance) else None
        it.record("forward", site, module, syncs=syncs)
        source = Source(SourceKind.MODULE, site, module)
        operands = [expressions.facts_of(it, v) for v in (*args, *named.values())]
        result = marked(it, result, source, operands, frozen=it.machine.get("no grad") is True)
    return result


def marked(it: Interpreter, value: Value, source: Source, operands: list[Facts], frozen: bool, depth: int = 0) -> Value:
    """What a module returned, with the module noted as its source wherever it carries gradient."""
    if isinstance(value, Data):
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
    if depth > 3:
        return value
    if isinstance(value, Sequence):
        if value.items is not None:
            made = [marked(it, item, source, operands, frozen, depth + 1) for item in value.items]
            return Sequence(made, value.kind, site=value.site)
        element = value.element
        inner = marked(it, element, source, operands, frozen, depth + 1) if element is not None else None
        return Sequence(None, value.kind, inner, value.length, value.site)
    if isinstance(value, Mapping):
        entries = {k: marked(it, v, source, operands, frozen, depth + 1) for k, v in value.entries.items()}
        other = marked(it, value.other, source, operands, frozen, depth + 1) if value.other is not None else None
        return Mapping(entries, other, value.site)
    if isinstance(value, Instance):
        for key, item in list(value.attrs.items()):
            if isinstance(item, (Data, Sequence, Mapping, Choice)) and not key.startswith("%"):
                it.trail.set(value.attrs, key, marked(it, item, source, operands, frozen, depth + 1))
        return value
    if isinstance(value, Choice):
        return Choice(tuple(marked(it, option, source, operands, frozen, depth + 1) for option in value.options))
    return value


def _layer(it: Interpreter, a: Arguments, site: Site) -> Value:
    """What a layer with weights makes of its inputs: a tensor with gradient, of the first one's shape and evenness."""
    given = [expressions.facts_of(it, v) for v in a.values()] or [NOTHING]
    facts = [f for f in given if f.type == "tensor"] or given
    merged = replace(tensors.elementwise(facts), sources=frozenset().union(*(f.sources for f in given)))
    place = merged.place
    if place.is_unknown and any(f.place.is_local for f in facts):
        place = SHARD
    shape = facts[0]
    frozen = it.machine.get("no grad") is True
    term = Term(place if place.is_replicate or place.is_unknown else SHARD, unsure=merged.opaque)
    changes: dict[str, Any] = {"lead": shape.lead, "rest": shape.rest, "ndim": shape.ndim, "total": EVEN_UNKNOWN}
    if place.is_local and shape.place.is_replicate:
        # Weights that attend to a batch (queries) give a row for each example.
        changes |= {"lead": merged.lead, "ndim": None}
    return Data(
        replace(
            merged, type="tensor", place=place, grad=not frozen, terms=() if frozen else (term,), clean=False, **changes
        ),
        site,
    )


def _embedding(it: Interpreter, a: Arguments, site: Site) -> Value:
    value = _layer(it, a, site)
    assert isinstance(value, Data)
    ndim = value.facts.ndim
    return Data(replace(value.facts, ndim=ndim + 1 if ndim is not None else None), site)


def _lead_only(it: Interpreter, a: Arguments, site: Site) -> Value:
    """A layer whose output has one entry per row whatever the rest of the input's shape (pooling, flattening)."""
    value = _layer(it, a, site)
    assert isinstance(value, Data)
    return Data(replace(value.facts, rest=EVEN, ndim=None), site)


def _per_target(it: Interpreter, a: Arguments, site: Site) -> Value:
    """The losses of the single targets. `classes`: the input has one dimension more than the target."""
    x, target = expressions.facts_of(it, a["input"]), expressions.facts_of(it, a["target"])
    return Data(_per_target_facts(x, target, _is_true(a.get("classes"))), site)


def _per_target_facts(x: Facts, target: Facts, classes: bool) -> Facts:
    known = target if target.type == "tensor" or not target.lead.is_even else x
    lead = facts_.same_count(target.lead, x.lead)
    rest = target.rest if classes else facts_.same_count(target.rest, x.rest)
    if classes and not target.rest.is_even and target.ndim == 1:
        rest = EVEN
    place = SHARD
    if x.place.is_replicate and target.place.is_replicate:
        place = REPLICATE
    elif x.detached is not None and not x.place.is_local:
        place = UNKNOWN  # of gathered rows and this rank's own nobody knows which these are
    elif (x.place.is_unknown and not x.grad) and target.place.is_unknown:
        place = UNKNOWN
    grad = x.grad or target.grad
    terms: tuple[Term, ...] = ()
    if grad:
        spread = [t for t in x.terms + target.terms if not t.place.is_replicate]
        readable = all((t.place.is_local and t.place.spread) or t.place.is_unknown for t in spread)
        base = next((t for t in spread if t.scalings), None)
        unsure = x.opaque or target.opaque
        terms = (Term(place if readable else UNKNOWN, scalings=base.scalings if base else (), unsure=unsure),)
        if place.is_replicate:
            # The same losses on every rank, each with the gradient that reaches this one.
            place = Placement(Kind.REPLICATE, spread=x.place.spread)
            terms = tuple(dict.fromkeys(x.terms + target.terms))
    return Facts(
        place,
        type="tensor",
        lead=lead,
        rest=rest,
        total=EVEN_UNKNOWN,
        ndim=known.ndim if known is target else None,
        sources=x.sources | target.sources,
        grad=grad,
        terms=terms,
        detached=x.detached or target.detached,
        coupled=x.coupled or target.coupled,
        opaque=x.opaque or target.opaque,
    )


def _reduce_targets(it: Interpreter, a: Arguments, site: Site) -> Value:
    """A loss function's own reduction: "mean", "sum" or "none" over the targets that are not ignored or masked."""
    x, target = expressions.facts_of(it, a["input"]), expressions.facts_of(it, a["target"])
    losses = _per_target_facts(x, target, _is_true(a.get("classes")))
    reductions = list(options(a.get("reduction", Const("mean"))))
    results: list[Value] = []
    for reduction in reductions:
        kind = _text(reduction)
        if kind == "none":
            results.append(Data(losses, site))
        elif kind == "sum":
            results.append(Data(tensors.reduced(it, losses, False, site), site))
        elif kind in ("mean", "batchmean", "elementwise_mean"):
            even = _target_count(it, losses, target, a, site)
            if kind == "batchmean":
                even = losses.lead
            facts = tensors.reduced(it, losses, True, site)
            terms = tuple(dataclasses.replace(t, even=even) if t.reduction == site else t for t in facts.terms)
            results.append(Data(replace(facts, terms=terms, total=EVEN_UNKNOWN), site))
        else:
            results.append(Data(tensors.unknown_result([x, target]), site))
    result = results[0]
    for other in results[1:]:
        result = join(result, other)
    return result


def _target_count(it: Interpreter, losses: Facts, target: Facts, a: Arguments, site: Site) -> facts_.Even:
    """Is the number of targets that a mean divides by the same on every rank?"""
    count = losses.elements
    ignore = a.get("ignore_index")
    weight = a.get("weight", NONE)
    if not (isinstance(weight, Const) and weight.value is None):
        sure = [o for o in options(weight) if not (isinstance(o, Const) and o.value is None)]
        if len(sure) == len(list(options(weight))):
            where = weight.site if isinstance(weight, (Data, Const)) and weight.site is not None else site
            return uneven(
                Evidence(where, "the mean divides by the sum of these class weights over this rank's targets")
            )
        count = EVEN_UNKNOWN if count.is_even else count
    for one in options(ignore):
        if isinstance(one, Const):
            written = [why for value, why in target.ignored if value == one.value]
            if written:
                return uneven(*written)
            if target.clean and isinstance(one.value, int) and one.value < 0:
                continue
            if one.site is not None and isinstance(one.value, int) and one.value >= 0:
                # No code in sight writes it; a file may hold it, as label images hold 255 where nothing is labelled.
                # A negative one does not come out of files: it stays idle until somebody writes it.
                return uneven(Evidence(one.site, f"targets equal to {one.value!r} are not counted", sure=False))
            if count.is_even and not target.clean:
                count = EVEN_UNKNOWN
        elif isinstance(one, Data):
            marks = [why for value, why in target.ignored]
            if marks:
                return uneven(*marks)
            if one.facts.place.is_replicate and not one.facts.sources:
                # A number beyond all classes, made from a shape: meant for targets that do not occur as a rule.
                count = EVEN_UNKNOWN if count.is_even else count
                continue
            return uneven(Evidence(one.site or site, "targets equal to this index are not counted", sure=False))
    return count


def _masked_mean_of_rows(it: Interpreter, a: Arguments, site: Site) -> Value:
    return Data(tensors.unknown_result([expressions.facts_of(it, v) for v in a.values()]), site)


# ---------------------------------------------------------------- loops, loaders, optimizers


def _record(it: Interpreter, a: Arguments, site: Site) -> Value:
    """Note an event of any kind: `record("loader", self, sampler=sampler)`."""
    details = {k: v for k, v in a.items() if k not in ("kind", "subject")}
    it.record(_text(a["kind"]), site, a.get("subject"), **details)
    return NONE


def _optimizer_made(it: Interpreter, a: Arguments, site: Site) -> Value:
    owners = owners_of(it, a["params"])
    it.record("optimizer", site, a["optimizer"], owners=owners)
    return NONE


def _optimizer_step(it: Interpreter, a: Arguments, site: Site) -> Value:
    it.record("step", site, a["optimizer"])
    return NONE


def _backward(it: Interpreter, a: Arguments, site: Site) -> Value:
    record_backward(it, a["loss"], site)
    return NONE


def _many(it: Interpreter, a: Arguments, site: Site) -> Value:
    """A list of as many alike items as a batch holds; `even`: the same number on every rank (None: not known)."""
    even = a.get("even", TRUE)
    count = EVEN if _is_true(even) else EVEN_UNKNOWN
    if isinstance(even, Data):
        count = even.facts.total
    place = placement.PARTIAL
    length = Facts(place, type="int", total=count, lead=EVEN, rest=EVEN, ndim=0)
    return Sequence(None, "list", a["item"], length, site)


def _local_index(it: Interpreter, a: Arguments, site: Site) -> Value:
    """An index into the data that a sampler gives this rank alone (`sharded`) or any rank."""
    sources = [Source(SourceKind.COUNTER, site)]
    if _is_true(a.get("sharded")):
        sources.append(Source(SourceKind.RANK, site))
    return Data(Facts(SHARD, type="int", lead=EVEN, rest=EVEN, total=EVEN, ndim=0, sources=frozenset(sources)), site)


def _from_loader(it: Interpreter, a: Arguments, site: Site) -> Value:
    """A batch, with the loader that it came from noted as its source: this rank's own, also where it was not read.

    `stacked`: the loader itself made the batch, with a row for each item.
    """
    source = Source(SourceKind.LOADER, site, a["loader"])
    return sourced(it, a["batch"], source, EVEN if _is_true(a.get("stacked")) else EVEN_UNKNOWN)


def sourced(it: Interpreter, value: Value, source: Source, rows: facts_.Even = EVEN_UNKNOWN, depth: int = 0) -> Value:
    if isinstance(value, Data):
        facts = value.facts
        lead = rows if facts.place.is_unknown and facts.type != "tensor" else facts.lead
        place = facts.place if facts.place.is_local else SHARD
        result = Data(replace(facts, place=place, lead=lead, sources=facts.sources | {source}), value.site)
        result.identity = value.identity
        return result
    if depth > 4:
        return value
    if isinstance(value, Sequence):
        if value.items is not None:
            return Sequence(
                [sourced(it, item, source, rows, depth + 1) for item in value.items], value.kind, site=value.site
            )
        inner = sourced(it, value.element, source, rows, depth + 1) if value.element is not None else None
        return builtins._alike(value, inner)
    if isinstance(value, Mapping):
        other = sourced(it, value.other, source, rows, depth + 1) if value.other is not None else None
        return Mapping(
            {k: sourced(it, v, source, rows, depth + 1) for k, v in value.entries.items()}, other, value.site
        )
    if isinstance(value, Choice):
        return Choice(tuple(sourced(it, option, source, rows, depth + 1) for option in value.options))
    if isinstance(value, Instance):
        for key, item in list(value.attrs.items()):
            if isinstance(item, (Data, Sequence, Mapping, Choice)) and not key.startswith("%"):
                it.trail.set(value.attrs, key, sourced(it, item, source, rows, depth + 1))
        return value
    return value


def _drawn(it: Interpreter, a: Arguments, site: Site) -> Value:
    """A random number or array: `drawn("numpy")`, `drawn("python", generator=g)`; `like` or `size` gives the shape.

    `permutation`: the numbers from 0 on in random order.
    """
    permutes = _is_true(a.get("permutation"))
    state = random_state(it, a.get("generator"), _text(a.get("library")))
    like = expressions.facts_of(it, a["like"]) if "like" in a else replace(CONSTANT, ndim=0)
    size = a.get("size")
    if size is not None and not (isinstance(size, Const) and size.value is None):
        filled = expressions.facts_of(it, tensors._filled(it, [size], {}, site, "zeros"))
        like = replace(filled, type="tensor")
    source = draw(it, state, site, single=like.ndim == 0)
    facts = Facts(
        state.place,
        type=like.type if like.type == "tensor" else "number",
        lead=like.lead,
        rest=like.rest,
        ndim=like.ndim,
        total=EVEN if permutes else uneven(Evidence(site, "drawn at random here")),
        sources=frozenset((source,)),
        clean=True,
        permutation=permutes,
    )
    return Data(facts, site)


def _shuffled(it: Interpreter, a: Arguments, site: Site) -> Value:
    """A list in random order: a draw happens, the elements stay what they are."""
    state = random_state(it, a.get("generator"), _text(a.get("library")))
    it.record("shuffle", site, a["sequence"], state=state)
    target = a["sequence"]
    for one in options(target):
        if isinstance(one, Sequence):
            element = element_of(one.content)
            length = builtins.length_facts(it, one)
            if element is not None:
                # Which element stands where depends on the draw: on each rank another one, where the draws differ.
                by = replace(CONSTANT, place=state.place, sources=frozenset((draw(it, state, site),)))
                element = builtins.placed_by(it, element, by, site)
                it.trail.set(one.state, "content", Content(None, element, length))
    return target


def _option(it: Interpreter, a: Arguments, site: Site) -> Value:
    """A value that the user of the script chooses; `default` is what it is otherwise."""
    source = Source(SourceKind.OPTION, site)
    kind = _text(a.get("type")) if isinstance(a.get("type"), Const) else ""
    named = a.get("type")
    if isinstance(named, Builtin):
        kind = named.name
    facts = replace(CONSTANT, type=kind, ndim=0, sources=frozenset((source,)), clean=False)
    default = a.get("default")
    if isinstance(default, Data) and default.identity in ("rank", "world size", "local rank"):
        return default
    return Data(facts, site, default)


def chosen(default: Const, site: Site) -> Data:
    """What stands in the place of a constant that the user may have overridden."""
    source = Source(SourceKind.OPTION, site)
    kind = "" if default.value is None else type(default.value).__name__
    return Data(replace(CONSTANT, type=kind, ndim=0, sources=frozenset((source,)), clean=False), site, default)


def _local_option(it: Interpreter, a: Arguments, site: Site) -> Value:
    return _local_rank(it, a, site)


def _unknown(it: Interpreter, a: Arguments, site: Site) -> Value:
    """Something that is not known; `like` (any number of keywords) says what it depends on."""
    return Data(tensors.unknown_result([expressions.facts_of(it, v) for v in a.values()]), site)


def _constant(it: Interpreter, a: Arguments, site: Site) -> Value:
    """A value that is not known but the same on every rank, such as the content of a file."""
    return Data(
        replace(
            CONSTANT, type=_text(a.get("type")), total=EVEN_UNKNOWN, lead=EVEN_UNKNOWN, rest=EVEN_UNKNOWN, clean=False
        ),
        site,
    )


def _same_everywhere(it: Interpreter, a: Arguments, site: Site) -> Value:
    """`value` as rank 0 has it."""
    return Data(replace(expressions.facts_of(it, a["value"]), place=REPLICATE, total=EVEN), site)


def _uneven_count(it: Interpreter, a: Arguments, site: Site) -> Value:
    """A number that differs between ranks, because of what `why` says."""
    text = _text(a.get("why"))
    return Data(
        Facts(placement.PARTIAL, type="int", total=uneven(Evidence(site, text)), lead=EVEN, rest=EVEN, ndim=0), site
    )


def _apply_table(it: Interpreter, a: Arguments, site: Site) -> Value:
    """The tensor operation of that name: `operation("sum", [x, dim])`. `at`: carried out where that value was made."""
    name = _text(a["name"])
    site = _site_of(a.get("at")) or site
    args = builtins.exact_items(it, a.get("args", Sequence([])), None) or []
    kwargs = a.get("kwargs")
    named = {str(k): v for k, v in kwargs.entries.items()} if isinstance(kwargs, Mapping) else {}
    return tensors.call(it, name, list(args), named, site)


def _tensor_function(it: Interpreter, a: Arguments, site: Site) -> Value:
    """The function `name` of a tensor library, for a stub module's `__getattr__`."""
    name = _text(a["name"])
    return Builtin(name, lambda it, args, kwargs, where: tensors.call(it, name, args, kwargs, where))


class _SuspendedError(Exception):
    """A generator stands at its `yield` for good."""


def _enter(it: Interpreter, a: Arguments, site: Site) -> Value:
    """Enter a context manager for as long as `stack` says: what it changed is changed back by `leave(stack)`."""
    stack = a["stack"]
    result: Value = NONE
    for manager in options(a["manager"]):
        mark = it.trail.mark()
        result = _entered(it, manager, site)
        if isinstance(stack, Instance):
            before = stack.attrs.get("%entered") or ()
            it.trail.set(stack.attrs, "%entered", (*before, *it.trail.writes(mark).values()))
    return result


def _entered(it: Interpreter, manager: Value, site: Site) -> Value:
    """What a context manager does up to its block, and what it hands to it."""
    if isinstance(manager, Instance):
        return calls.call_method(it, manager, "__enter__", [], {}, site)
    handed: list[Value] = []

    def take(value: Value) -> Value:
        handed.append(value)
        raise _SuspendedError

    if isinstance(manager, Generator):
        with contextlib.suppress(_SuspendedError):
            manager.run(calls.outside(it, take))
    return handed[0] if handed else NONE


def _leave(it: Interpreter, a: Arguments, site: Site) -> Value:
    stack = a["stack"]
    entered = stack.attrs.get("%entered") if isinstance(stack, Instance) else None
    for write in reversed(entered or ()):
        if isinstance(write.old, Value):
            it.trail.set(write.store, write.key, write.old)
    return NONE


def _partial(it: Interpreter, a: Arguments, site: Site) -> Value:
    args = builtins.exact_items(it, a.get("args", Sequence([])), None) or []
    kwargs = a.get("kwargs")
    named = {str(k): v for k, v in kwargs.entries.items()} if isinstance(kwargs, Mapping) else {}
    return Partial(a["function"], list(args), named)


def _no_grad(it: Interpreter, a: Arguments, site: Site) -> Value:
    """Switch gradients off or on; answers what they were."""
    before = it.machine.get("no grad") is True
    it.trail.set(it.machine, "no grad", _is_true(a.get("off")))
    return TRUE if before else FALSE


def _escape(it: Interpreter, a: Arguments, site: Site) -> Value:
    for value in a.values():
        calls.escape(it, value, site)
    return NONE


def _is_iterable_dataset(it: Interpreter, a: Arguments, site: Site) -> Value:
    """Is the dataset one that is iterated (True), one that is indexed (False), or neither known (unknown)?"""
    answers: set[bool | None] = set()
    for one in options(a["dataset"]):
        if isinstance(one, Instance):
            if one.is_a("torch.utils.data.IterableDataset"):
                answers.add(True)
            elif one.cls.lookup("__getitem__") is not None:
                answers.add(False)
            elif one.cls.lookup("__iter__") is not None and not one.cls.is_opaque:
                answers.add(True)
            else:
                answers.add(None)
        elif isinstance(one, Sequence) or (isinstance(one, Data) and one.facts.type == "tensor"):
            answers.add(False)
        else:
            answers.add(None)
    if answers == {True}:
        return TRUE
    if answers == {False}:
        return FALSE
    return Data(replace(NOTHING, type="bool"))


def _copy(it: Interpreter, a: Arguments, site: Site) -> Value:
    value = a["value"]
    if isinstance(value, Instance):
        made = Instance(value.cls, site, value.key)
        made.attrs.update(value.attrs)
        return made
    if isinstance(value, Sequence):
        return Sequence(value.items, value.kind, value.element, value.length, value.site)
    if isinstance(value, Mapping):
        return Mapping(dict(value.entries), value.other, value.site)
    if isinstance(value, Data):
        return Data(value.facts, value.site)
    return value


def _picked(it: Interpreter, a: Arguments, site: Site) -> Value:
    """An element of an iterable that is strided through: this rank's own where a bound or step depends on the rank."""
    item = a["item"]
    for name in ("start", "stop", "step"):
        if name in a:
            item = builtins.placed_by(it, item, expressions.facts_of(it, a[name]), site)
    return item


def _unordered(it: Interpreter, a: Arguments, site: Site) -> Value:
    """A listing without a fixed order: `os.listdir`, `glob`."""
    source = Source(SourceKind.LISTING, site)
    element = Data(replace(CONSTANT, type="str", sources=frozenset((source,)), clean=False), site)
    return Sequence(None, "list", element, replace(CONSTANT, type="int", ndim=0), site)


def _now(it: Interpreter, a: Arguments, site: Site) -> Value:
    source = Source(SourceKind.TIME, site)
    return Data(
        Facts(
            Placement(Kind.LOCAL), type="number", lead=EVEN, rest=EVEN, total=EVEN, ndim=0, sources=frozenset((source,))
        ),
        site,
    )


def _worker(it: Interpreter, a: Arguments, site: Site) -> Value:
    source = Source(SourceKind.WORKER, site)
    return Data(replace(CONSTANT, type="int", ndim=0, sources=frozenset((source,))), site)


def _submodules(it: Interpreter, a: Arguments, site: Site) -> Value:
    """A module and the modules inside it, as far as they are known."""
    found: list[Value] = []
    for one in options(a["module"]):
        found += [part for part in parts_of(one) if isinstance(part, Instance) and part.is_a(_MODULE)]
    return Sequence(list(dict.fromkeys(found))[:_MOST_MODULES])


def _named_like(it: Interpreter, a: Arguments, site: Site) -> Value:
    """`wrapper`, which stands for `function` from here on (functools.wraps)."""
    wrapper, function = a["wrapper"], a["function"]
    if isinstance(wrapper, Function) and isinstance(function, Function):
        wrapper.name = function.name
        wrapper.attrs["__wrapped__"] = function
    return wrapper


def _attributes(it: Interpreter, a: Arguments, site: Site) -> Value:
    """Set every entry of a mapping as an attribute of an object."""
    owner, entries = a["owner"], a["entries"]
    if isinstance(owner, Instance) and isinstance(entries, Mapping):
        for key, value in entries.entries.items():
            if isinstance(key, str):
                it.trail.set(owner.attrs, key, value)
        if entries.other is not None:
            it.trail.set(owner.attrs, "%opaque", TRUE)
    return NONE


def _call_unknown(it: Interpreter, a: Arguments, site: Site) -> Value:
    return calls.call_unknown(it, Foreign("?"), list(a.values()), {}, site)


def _seed_call(it: Interpreter, a: Arguments, site: Site) -> Value:
    _seed(it, a.get("library", Const("all")), a["seed"], site)
    return NONE


def _is_tensor(it: Interpreter, a: Arguments, site: Site) -> Value:
    value = a["value"]
    if isinstance(value, Data) and value.facts.type == "tensor":
        return TRUE
    if isinstance(value, (Sequence, Mapping, Const, Instance)):
        return FALSE
    return Data(replace(NOTHING, type="bool"))


def _kind_of(it: Interpreter, a: Arguments, site: Site) -> Value:
    """ "tensor", "number", "text", "sequence", "mapping", "object" or "unknown"."""
    value = a["value"]
    names: set[str] = set()
    for one in options(value):
        if isinstance(one, Sequence):
            names.add("sequence")
        elif isinstance(one, Mapping):
            names.add("mapping")
        elif isinstance(one, Instance):
            names.add("object")
        elif isinstance(one, Data):
            kind = one.facts.type
            names.add("tensor" if kind == "tensor" else "text" if kind == "str" else "number" if kind else "unknown")
        elif isinstance(one, Const):
            names.add("text" if isinstance(one.value, str) else "number")
        else:
            names.add("unknown")
    return Const(names.pop()) if len(names) == 1 else Const("unknown")


def _counter(it: Interpreter, a: Arguments, site: Site) -> Value:
    """A number that counts the passes of a loop inside a framework."""
    return expressions.counter(it, site)


def _certainly(it: Interpreter, a: Arguments, site: Site) -> Value:
    """True where the condition is known to hold, else False: for what a stub takes for granted only when it is sure."""
    return TRUE if it.truth(a["condition"]) else FALSE


def _each(it: Interpreter, a: Arguments, site: Site) -> Value:
    """`function(value)` for each of the values that `value` may be, joined."""
    function = a["function"]
    found = list(options(a["value"]))
    if len(found) == 1:
        return calls.call(it, function, found, {}, site)
    sides = [functools.partial(calls.call, it, function, [one], {}, site) for one in found]
    return it.branches(sides)


def _sharded(it: Interpreter, a: Arguments, site: Site) -> Value:
    """A value (an index, an example) that a framework picked for this rank alone."""
    source = Source(SourceKind.RANK, site)
    return sourced(it, a["value"], source)


def _located(it: Interpreter, a: Arguments, site: Site) -> Value:
    """`value`, as if it had been made where the literal `at` stands: the user's argument that chose it."""
    value = a["value"]
    return Data(expressions.facts_of(it, value), _site_of(a.get("at")) or site)


def _site_of(value: Value | None) -> Site | None:
    return value.site if isinstance(value, (Const, Data, Instance)) else None


def _read_from(it: Interpreter, a: Arguments, site: Site) -> Value:
    """What is read from a file: the same on every rank where its path is.

    `clean`: numbers that are never negative. `even`: of one shape, whichever file it is.
    """
    facts = expressions.facts_of(it, a["source"])
    clean = _is_true(a.get("clean"))
    shape = EVEN if _is_true(a.get("even")) else EVEN_UNKNOWN
    unread = {"lead": shape, "rest": shape, "total": EVEN_UNKNOWN, "ndim": None, "clean": clean}
    return Data(replace(facts, type=_text(a.get("type")), grad=False, terms=(), **unread), site)


def _modules_of(it: Interpreter, a: Arguments, site: Site) -> Value:
    """The modules whose parameters stand in a value."""
    return Sequence([owner for owner in owners_of(it, a["parameters"]) if isinstance(owner, Instance)])


def _accepts(it: Interpreter, a: Arguments, site: Site) -> Value:
    """Has a function a parameter of that name? `"**"` asks for any further keywords."""
    name, function = _text(a["name"]), a["function"]
    if isinstance(function, Bound):
        function = function.function
    if not isinstance(function, Function):
        return Data(replace(NOTHING, type="bool"))
    parameters = function.record.params
    return TRUE if any(p.kind == "**" if name == "**" else p.name == name for p in parameters) else FALSE


def _caller_arguments(it: Interpreter, a: Arguments, site: Site) -> Value:
    """The arguments of the user's function that called into the library, by name."""
    for frame in reversed(it.frames):
        if not frame.unit.is_stub and frame.function is not None:
            held: dict[Any, Value] = {}
            for param in frame.function.record.params:
                value = frame.scope.names.get(param.name)
                if param.kind == "**" and isinstance(value, Mapping):
                    held |= value.entries
                elif isinstance(value, Value) and param.kind != "*" and value is not frame.receiver:
                    held[param.name] = value
            return Mapping(held)
    return Mapping({}, Data(NOTHING))


def _field_options(it: Interpreter, a: Arguments, site: Site) -> Value:
    """The fields of a dataclass, each as an option of its name that has the field's default."""
    found: dict[Any, Value] = {}
    for cls in (c for one in options(a["cls"]) if isinstance(one, Class) for c in reversed(one.mro)):
        names = cls.attrs.get("%fields")
        for name in names.items or [] if isinstance(names, Sequence) else []:
            if isinstance(name, Const) and isinstance(name.value, str):
                found[name.value] = _option_named(it, name.value, cls.attrs.get(name.value), site)
    return Mapping(found)


def _option_named(it: Interpreter, name: str, default: Value | None, site: Site) -> Value:
    if name == "local_rank":
        return _local_rank(it, {}, site)
    if isinstance(default, Instance) and default.cls.qualified == "dataclasses.Field":
        default = calls.call_method(it, default, "make", [], {}, site)
    if isinstance(default, Instance) and default.cls.lookup("%fields") is not None:
        return _filled_with_options(it, default.cls, site)
    if isinstance(default, Data) and default.facts.has(SourceKind.OPTION):
        return default
    kind = type(default.value).__name__ if isinstance(default, Const) and default.value is not None else ""
    return _option(it, {"default": default or NONE, "type": Const(kind)}, _site_of(default) or site)


def _filled_with_options(it: Interpreter, cls: Class, site: Site) -> Value:
    fields = _field_options(it, {"cls": cls}, site)
    assert isinstance(fields, Mapping)
    return calls.instantiate(it, cls, [], {str(k): v for k, v in fields.entries.items()}, site)


def _call_with_options(it: Interpreter, a: Arguments, site: Site) -> Value:
    """Call a function or class with an option for each of its parameters: what command-line generators do."""
    target = a["function"]
    if isinstance(target, Class) and target.lookup("__init__") is None:
        return _filled_with_options(it, target, site)
    function = target.lookup("__init__") if isinstance(target, Class) else target
    bound = isinstance(target, Class)
    if isinstance(function, Bound):
        function, bound = function.function, True
    given: dict[str, Value] = {}
    if isinstance(function, Function):
        parameters = [p for p in function.record.params if p.name and p.kind not in ("*", "**")]
        for parameter in parameters[1:] if bound else parameters:
            kind = _annotated_class(it, function, parameter.annotation)
            if kind is not None:
                given[parameter.name] = _filled_with_options(it, kind, site)
            else:
                given[parameter.name] = _option_named(it, parameter.name, function.defaults.get(parameter.name), site)
        if any(p.kind == "**" for p in function.record.params):
            given["%other"] = _option(it, {}, site)
    return calls.call(it, target, [], given, site)


def _annotated_class(it: Interpreter, function: Function, annotation: r.Expr | None) -> Class | None:
    """The dataclass that a parameter is annotated with, if it is one."""
    if not isinstance(annotation, (r.Name, r.Attr)):
        return None
    name = annotation.id if isinstance(annotation, r.Name) else annotation.name
    found = it.force(function.scope.globals.names.get(name) or NONE)
    return found if isinstance(found, Class) and found.lookup("%fields") is not None else None


def _map_values(it: Interpreter, a: Arguments, site: Site) -> Value:
    """A dictionary with `function(value)` for each value, also for those of unknown keys."""
    function, mapping = a["function"], a["mapping"]
    if not isinstance(mapping, Mapping):
        return mapping
    made = {key: calls.call(it, function, [value], {}, site) for key, value in mapping.entries.items()}
    other = calls.call(it, function, [mapping.other], {}, site) if mapping.other is not None else None
    result = Mapping(made, other, mapping.site)
    result.state["keys"] = mapping.state["keys"]
    return result


def _evenness(it: Interpreter, a: Arguments, site: Site) -> Value:
    """Is the number of elements of a value "even" across the ranks, "uneven", or "unknown"?"""
    value = a["value"]
    if isinstance(value, Sequence):
        return Const(tensors.length_even(value).state.value)
    facts = expressions.facts_of(it, value)
    return Const(facts.elements.state.value if facts.type == "tensor" else "unknown")


def _count_targets(it: Interpreter, a: Arguments, site: Site) -> Value:
    """How many of this rank's targets are not `ignore_index`."""
    target = expressions.facts_of(it, a["target"])
    even = _target_count(it, target, target, {"ignore_index": a.get("ignore_index", Const(-100))}, site)
    return Data(
        Facts(placement.PARTIAL, type="int", total=even, lead=EVEN, rest=EVEN, ndim=0, sources=target.sources), site
    )


_Intrinsic = Callable[["Interpreter", Arguments, Site], Value]

# name: (function, names of its positional parameters)
INTRINSICS: dict[str, tuple[_Intrinsic, tuple[str, ...]]] = {
    "rank": (_rank, ()),
    "local_rank": (_local_rank, ()),
    "world_size": (_world_size, ()),
    "device_count": (_device_count, ()),
    "environment": (_environment, ("name", "default")),
    "in_environment": (_in_environment, ("name",)),
    "start_group": (_start_group, ("backend", "rank", "world_size")),
    "group_started": (_group_started, ()),
    "new_group": (_new_group, ("group", "ranks")),
    "launch": (_launch, ("function", "args", "processes")),
    "wrap": (_wrap, ("wrapper", "module", "how")),
    "broadcast_parameters": (_broadcast_parameters, ("parameters",)),
    "reduce_gradients": (_reduce_gradients, ("parameters", "op")),
    "scale_gradients": (_scale_gradients, ("parameters", "factor", "divides")),
    "clip": (_clip, ("parameters", "how")),
    "all_reduce": (_all_reduce, ("tensor", "op", "group")),
    "all_gather": (_all_gather, ("tensor", "into", "group")),
    "gather_stacked": (_gather_stacked, ("tensor",)),
    "broadcast": (_broadcast, ("tensor", "group")),
    "hand_written": (_hand_written, ("forward", "backward", "args")),
    "seed": (_seed_call, ("library", "seed")),
    "drawn": (_drawn, ("library",)),
    "shuffled": (_shuffled, ("library", "sequence")),
    "parameters": (_parameters, ("module",)),
    "state_dict": (_state_dict, ("module",)),
    "load_state": (_load_state, ("module", "state")),
    "parameter": (_parameter, ("data",)),
    "initialise": (_initialise, ("tensor",)),
    "module_call": (_module_call, ("module", "forward", "args", "kwargs")),
    "layer": (_layer, ("x", "y", "z", "u", "v", "w")),
    "embedding": (_embedding, ("x",)),
    "pooled": (_lead_only, ("x", "y")),
    "per_target": (_per_target, ("input", "target", "classes")),
    "reduce_targets": (_reduce_targets, ("input", "target", "reduction")),
    "record": (_record, ("kind", "subject")),
    "optimizer_made": (_optimizer_made, ("optimizer", "params")),
    "optimizer_step": (_optimizer_step, ("optimizer",)),
    "backward": (_backward, ("loss",)),
    "many": (_many, ("item", "even")),
    "local_index": (_local_index, ("sharded",)),
    "from_loader": (_from_loader, ("loader", "batch", "stacked")),
    "option": (_option, ("default", "type")),
    "local_option": (_local_option, ()),
    "unknown": (_unknown, tuple("abcdefgh")),
    "constant": (_constant, ("type",)),
    "same_everywhere": (_same_everywhere, ("value",)),
    "uneven_count": (_uneven_count, ("why",)),
    "operation": (_apply_table, ("name", "args", "kwargs")),
    "tensor_function": (_tensor_function, ("name",)),
    "enter": (_enter, ("stack", "manager")),
    "leave": (_leave, ("stack",)),
    "partial": (_partial, ("function", "args", "kwargs")),
    "no_grad": (_no_grad, ("off",)),
    "escape": (_escape, tuple("abcdefgh")),
    "is_iterable_dataset": (_is_iterable_dataset, ("dataset",)),
    "copy": (_copy, ("value",)),
    "picked": (_picked, ("item", "start", "stop", "step")),
    "unordered": (_unordered, ()),
    "now": (_now, ()),
    "worker": (_worker, ()),
    "named_like": (_named_like, ("wrapper", "function")),
    "submodules": (_submodules, ("module",)),
    "set_attributes": (_attributes, ("owner", "entries")),
    "call_unknown": (_call_unknown, tuple("abcdefgh")),
    "is_tensor": (_is_tensor, ("value",)),
    "kind_of": (_kind_of, ("value",)),
    "map_values": (_map_values, ("function", "mapping")),
    "evenness": (_evenness, ("value",)),
    "count_targets": (_count_targets, ("target", "ignore_index")),
    "counter": (_counter, ()),
    "certainly": (_certainly, ("condition",)),
    "each": (_each, ("function", "value")),
    "sharded": (_sharded, ("value",)),
    "located": (_located, ("value", "at")),
    "read_from": (_read_from, ("source", "type")),
    "modules_of": (_modules_of, ("parameters",)),
    "accepts": (_accepts, ("function", "name")),
    "caller_arguments": (_caller_arguments, ()),
    "field_options": (_field_options, ("cls",)),
    "call_with_options": (_call_with_options, ("function",)),
}


def find(name: str) -> Value:
    """The intrinsic of that name as a value that stubs can call."""
    function, names = INTRINSICS[name]

    def call(it: Interpreter, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
        given = Given(zip(names, args, strict=False))
        given.update({k: v for k, v in kwargs.items() if k != "%other"})
        return function(it, given, site)

    return Builtin(name, call)
