"""Which backwards reduce the gradients over the ranks.

A wrapper like DDP reduces in the backward that follows one of its own forwards: the forward *arms* it, unless
gradients are off or the reduction is switched off at that moment (`no_sync`). A backward uses the arming up. What is
switched between the forward and the backward counts for the next forward.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, NamedTuple

from dpcheck.execution import formulas
from dpcheck.execution.facts import Site, SourceKind
from dpcheck.execution.formulas import Formula, Kind, Symbol, Term, formula_of
from dpcheck.execution.run import Event, Guard, Loop, TrainingRun, Update, parts_of, unwrapped
from dpcheck.execution.values import Data, Instance, Sequence, Value


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Reduction:
    """A backward that reaches a wrapped model, and the wrapped forwards since the backward before it.

    `bare`: modules inside the wrapper that the loss came from without passing through the wrapper's forward.
    """

    update: Update
    wrap: Event
    backward: Event
    forwards: tuple[Event, ...]
    wrapped: bool
    bare: tuple[Instance, ...]


def reductions(run: TrainingRun) -> Iterator[Reduction]:
    """The backwards of wrappers that have to be armed, with what arms them."""
    wraps = [event for event in run.of_kind("wrap") if event.armed and event.averages and not event.shards]
    latest = {id(unwrapped(event.subject)): event for event in wraps}
    inside = {id(event): {id(part) for part in parts_of(unwrapped(event.subject))} for event in latest.values()}
    for update in run.updates:
        for backward in update.backwards:
            for wrap in latest.values():
                if wrap.order > backward.order:
                    continue
                wrapped = any(module is wrap.wrapper for module in backward.modules)
                bare = tuple(m for m in backward.modules if id(m) in inside[id(wrap)])
                if wrapped or bare:
                    forwards = tuple(_since(run, wrap, backward, inside[id(wrap)]))
                    yield Reduction(update, wrap, backward, forwards, wrapped, bare)


def _since(run: TrainingRun, wrap: Event, backward: Event, inside: set[int]) -> Iterator[Event]:
    """The wrapped forwards with gradient between the backward before it and this one."""
    after = -1
    for other in run.of_kind("backward"):
        reaches = any(module is wrap.wrapper or id(module) in inside for module in other.modules)
        if other.order < backward.order and reaches and not exclusive(other.guards, backward.guards):
            after = max(after, other.order)
    for event in run.of_kind("forward"):
        if event.subject is wrap.wrapper and not event.frozen and after < event.order < backward.order:
            if not exclusive(event.guards, backward.guards):
                yield event


def exclusive(some: tuple[Guard, ...], others: tuple[Guard, ...]) -> bool:
    """Do these guards stand on two sides of one condition?"""
    return any(a.site == b.site and a.holds is not b.holds for a in some for b in others)


def common(some: tuple[Guard, ...], *others: tuple[Guard, ...]) -> list[Guard]:
    return [guard for guard in some if all(guard in each for each in others)]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Missed:
    """A step that may follow a backward that did not reduce, and what switched the reduction off."""

    reduction: Reduction
    forward: Event
    switch: Event | None
    late: bool


def missed(run: TrainingRun) -> Iterator[Missed]:
    """The steps that certainly take, on some pass, a sum of micro-batches of which the last one did not reduce."""
    found = list(reductions(run))
    for reduction in found:
        update, step = reduction.update, reduction.update.step
        if not reduction.wrapped or not reduction.forwards or step.kind != "step" or update.reductions:
            continue
        later = [
            other.backward
            for other in found
            if other.update is update and other.wrap is reduction.wrap and other.wrapped
            if other.backward.order > reduction.backward.order
        ]
        when = _conditions(reduction, later)
        if when is not None and formulas.can_fail(_armed(run, reduction), *when):
            forward = reduction.forwards[-1]
            switch, late = _switch(run, forward)
            yield Missed(reduction, forward, switch, late)


def _armed(run: TrainingRun, reduction: Reduction) -> Formula:
    """That one of the forwards has armed the wrapper."""
    arms: list[Formula] = []
    for forward in reduction.forwards:
        # Ranks that part on the way are a matter of their own.
        own = [g for g in forward.guards if g not in reduction.backward.guards and not g.facts.differs]
        arms.append(formulas.all_of([*map(_of_guard, own), _flag(forward, *_switch(run, forward))]))
    return formulas.any_of(arms)


def reduces_before(run: TrainingRun, update: Update, backward: Event, event: Event) -> Event | None:
    """The wrap whose reduction comes, on some pass, only after an event that follows the backward."""
    if not update.accumulates or event.loops != backward.loops or event.order < backward.order:
        return None
    for reduction in reductions(run):
        if reduction.update is update and reduction.backward is backward and reduction.forwards:
            shared = common(backward.guards, event.guards)
            guards = [g for g in (*backward.guards, *event.guards) if g not in shared or _may_matter(g)]
            if formulas.can_fail(_armed(run, reduction), formulas.all_of(map(_of_guard, guards))):
                return reduction.wrap
    return None


class _When(NamedTuple):
    """The passes on which something happens.

    `unknown`: counters whose last value before it is not known; `fixed`: numbers of passes, which nobody can choose.
    """

    met: Formula
    unknown: frozenset[Symbol] = frozenset()
    fixed: frozenset[Symbol] = frozenset()


def _conditions(reduction: Reduction, later: list[Event]) -> _When | None:
    """When the step follows this backward with no other one of the model between; None where it never does so."""
    backward, step = reduction.backward, reduction.update.step
    shared = common(backward.guards, step.guards)
    conditions = [_of_guard(g) for g in (*backward.guards, *step.guards) if g not in shared or _may_matter(g)]
    unknown: set[Symbol] = set()
    fixed: set[Symbol] = set()
    if backward.loops[: len(step.loops)] == step.loops:
        for loop in backward.loops[len(step.loops) :]:
            last = _last_pass(loop)
            if last is not None:
                conditions.append(last)
                fixed |= {s for s in formulas.symbols_of(last) if s.kind is Kind.LENGTH}
            else:
                unknown |= set(formulas.symbols_of(formula_of(_index(loop))))
    for other in later:
        own = [g for g in other.guards if g not in backward.guards]
        if not own or other.loops != backward.loops:
            return None
        conditions.append(formulas.negated(formulas.all_of(map(_of_guard, own))))
    return _When(formulas.all_of(conditions), frozenset(unknown), frozenset(fixed))


def _may_matter(guard: Guard) -> bool:
    """Can a condition that holds for backward and step alike say something of the pass that they happen on?"""
    return any(symbol.kind is Kind.COUNTER for symbol in formulas.symbols_of(formula_of(guard.test)))


def _of_guard(guard: Guard) -> Formula:
    formula = formula_of(guard.test)
    return formula if guard.holds else formulas.negated(formula)


def _index(loop: Loop) -> Value | None:
    """The number of the pass that a loop counts."""
    element = loop.element
    if isinstance(element, Sequence) and element.items:
        element = element.items[0]
    if not isinstance(element, Data) or not element.facts.has(SourceKind.COUNTER):
        return None
    while element.made is not None:  # `start + step * pass`
        counting = [v for v in element.made[1:] if isinstance(v, Data) and v.facts.has(SourceKind.COUNTER)]
        if not counting:
            break
        element = counting[0]
    return element


def _last_pass(loop: Loop) -> Formula | None:
    """That a loop is on its last pass."""
    index = _index(loop)
    if index is None or (loop.count is None and not isinstance(loop.over, Sequence)):
        return None
    count = formula_of(loop.count) if loop.count is not None else formulas.length_of(loop.over)
    return Term("==", (formula_of(index), Term("-", (count, 1))))


def _switch(run: TrainingRun, forward: Event) -> tuple[Event | None, bool]:
    """What decided whether a forward arms: the last switch before it, or one that the pass before left behind."""
    switches = [event for event in run.of_kind("set sync") if event.subject is forward.subject]
    before = [event for event in switches if event.order < forward.order]
    loop = forward.loops[-1] if forward.loops else None
    if loop is not None and not any(loop in event.loops for event in before):
        carried = [event for event in switches if event.order > forward.order and loop in event.loops]
        if carried:
            return carried[-1], True
    return (before[-1] if before else None), False


def _flag(forward: Event, switch: Event | None, late: bool) -> Formula:
    """Whether the reduction is on when the forward runs, as a formula of its pass."""
    if not late or switch is None:
        return formula_of(forward.syncs) if forward.syncs is not None else formulas.TRUE
    flag = formula_of(switch.value)
    for symbol in set(formulas.symbols_of(flag)):
        if symbol.kind is Kind.COUNTER:
            flag = formulas.replaced(flag, symbol, Term("-", (symbol, 1)))
    return flag


def entrance(run: TrainingRun, reduction: Reduction) -> Site | None:
    """The call by which the loss got into the model without its wrapper."""
    inside = {id(part) for part in parts_of(unwrapped(reduction.wrap.subject))}
    bare = {id(module) for module in reduction.bare}
    for event in run.of_kind("forward"):
        if event.order > reduction.backward.order or event.frozen or id(event.subject) not in bare:
            continue
        if not exclusive(event.guards, reduction.backward.guards) and event.order > _last_before(run, reduction):
            entered: list[tuple[Any, Site]] = [each for each in event.entered if id(each[0]) in inside]
            return entered[0][1] if entered else event.site
    return None


def _last_before(run: TrainingRun, reduction: Reduction) -> int:
    orders = [e.order for e in run.of_kind("backward") if e.order < reduction.backward.order]
    return max(orders, default=-1)
