"""Loops that some ranks go through more often than others, because data was divided into parts of unequal size."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

from dpcheck.execution import formulas
from dpcheck.execution.divisions import flows
from dpcheck.execution.formulas import formula_of
from dpcheck.execution.loading import leaves
from dpcheck.execution.run import Event, Loop, TrainingRun
from dpcheck.execution.values import Const, Data, Generator, Instance, Sequence, Value

_RANKS = 2
_DIVIDING = ("stride", "range", "test", "pick")


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Uneven:
    """A division into unequal parts, and the loop over this rank's part that reduces in every pass.

    `sure`: the numbers are known, or each part is read to its end, whatever is in it.
    """

    division: Event
    loop: Loop
    backward: Event
    sure: bool


def uneven(run: TrainingRun) -> Iterator[Uneven]:
    if not run.complete or run.of_kind("join"):
        return
    for update in run.updates:
        if update.summed is None:
            continue
        for backward in update.backwards:
            for division in run.of_kind("division"):
                if division.even or not flows(division.sources, backward.facts):
                    continue
                found = _loop(run, backward, division)
                if found is None or _ends_alike(run, found, backward, division):
                    continue
                sure = _is_uneven(run, division, found)
                if sure is not None:
                    yield Uneven(division, found, backward, sure)


def _loop(run: TrainingRun, backward: Event, division: Event) -> Loop | None:
    """The loop that goes once through this rank's part, or through a loader of it."""
    for loop in reversed(backward.loops):
        over = loop.over
        if isinstance(over, Instance):
            made = next((e for e in run.of_kind("loader") if e.subject is over), None)
            if made is None or any(e.subject is over for e in run.of_kind("shard")):
                continue
            items = [f for e in run.of_kind("items") if e.subject is over for f in leaves(e.details.get("items"))]
            if any(flows(division.sources, facts) for facts in items):
                return None if _drops_the_tail(made) else loop
        elif isinstance(over, (Sequence, Data, Generator)):
            facts = leaves(loop.element if isinstance(over, Generator) else over)
            if any(flows(division.sources, each) for each in facts) and not isinstance(loop.count, Const):
                return loop
    return None


def _drops_the_tail(made: Event) -> bool:
    return not (isinstance(made.drop_last, Const) and not made.drop_last.value)


def _ends_alike(run: TrainingRun, loop: Loop, backward: Event, division: Event) -> bool:
    """May the loop end after a number of passes that all ranks have in common, or never?"""
    if any(within.over is None for within in division.loops if within not in backward.loops):
        return True
    if any(event.loop is loop or loop in event.loops for event in run.of_kind("break")):
        return True
    return any(loop in event.loops and not _is_none(event.details.get("stop")) for event in run.of_kind("limit"))


def _is_none(value: object) -> bool:
    return isinstance(value, Const) and value.value is None


def _is_uneven(run: TrainingRun, division: Event, loop: Loop) -> bool | None:
    """Do ranks get different numbers of batches? None where they do not; False where they may."""
    whole = division.subject
    if division.how == "pick":
        whole = whole.state.get("chunks") if isinstance(whole, Sequence) else None
    if division.how not in _DIVIDING or (whole is None and division.how == "pick"):
        return None
    if _is_read_to_its_end(run, division):
        return True
    parts = _parts(division, whole)
    if parts is None:
        return False
    size = _batch_size(run, loop)
    if size is None:
        return False if parts[0] != parts[-1] else None
    return True if math.ceil(parts[0] / size) != math.ceil(parts[-1] / size) else None


def _is_read_to_its_end(run: TrainingRun, division: Event) -> bool:
    """Is each part of the data a file (or the like) of which all records are taken, however many there are?"""
    return any(
        _names_a_part(division, loop) and any(loop not in inner.feeds for inner in event.loops[depth + 1 :])
        for event in run.of_kind("yield")
        for depth, loop in enumerate(event.loops)
    )


def _names_a_part(division: Event, loop: Loop) -> bool:
    """Does a loop go through the names (of files, say) that this rank has got?"""
    return any(flows(division.sources, f) and f.type == "str" for f in leaves(loop.element))


def _parts(division: Event, whole: Value | None) -> list[int] | None:
    """How many elements each of a few ranks gets, as far as the numbers are known."""
    numbers = [_number(division.stop if division.how == "range" else whole, rank) for rank in range(_RANKS)]
    if division.how == "pick":
        return [(n + _RANKS - 1) // _RANKS for n in numbers[:1] if n] + [n // _RANKS for n in numbers[1:] if n] or None
    parts: list[int] = []
    for rank, number in enumerate(numbers):
        start = _number(division.start, rank) if division.how == "range" else rank
        step = _number(division.step, rank) if division.how == "range" else _RANKS
        if number is None or start is None or not step:
            return None
        parts.append(max(math.ceil((number - start) / step), 0))
    return parts


def _number(value: Value | None, rank: int = 0) -> int | None:
    """A number, or the number of elements of something, as a rank has it with options at their defaults."""
    if isinstance(value, Sequence):
        formula = len(value.items) if value.items is not None else formulas.length_of(value)
    elif isinstance(value, Data) and value.facts.type == "tensor":
        formula = formulas.length_of(value)
    else:
        formula = formula_of(value)
    found = formulas.value_of(formula, formulas.defaults(formula, _RANKS, rank))
    return found if type(found) is int else None


def _batch_size(run: TrainingRun, loop: Loop) -> int | None:
    made = next((e for e in run.of_kind("loader") if e.subject is loop.over), None)
    return _number(made.batch_size) if made is not None else 1
