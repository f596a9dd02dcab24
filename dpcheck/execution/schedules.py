"""How long a learning-rate schedule is, in steps, and how often a run steps it: both as powers of the world size."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from dpcheck.execution.communication import Ranks, ranks_of
from dpcheck.execution.formulas import formula_of
from dpcheck.execution.run import Event, Loop, TrainingRun
from dpcheck.execution.values import Choice, Const, Data, Instance, Mapping, Sequence, Value, is_none, options

_MODULE = "torch.optim.lr_scheduler"
_LENGTHS: dict[str, tuple[tuple[str, int | None], ...]] = {
    "OneCycleLR": (("total_steps", 1),),
    "CosineAnnealingLR": (("T_max", 0),),
    "LinearLR": (("total_iters", 2),),
    "PolynomialLR": (("total_iters", 0),),
    "ConstantLR": (("total_iters", 1),),
    "LambdaLR": (("num_training_steps", None),),
}
"""Which argument says how many steps a schedule takes, by name and by position after the optimizer."""
_DEEPEST = 12
_COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Schedule:
    """A schedule and the loop that steps it. `length` and `steps` are the exponents of W of how many steps it is long
    and how many it makes; `loop` is where they are made.
    """

    made: Event
    stepped: Event
    loop: Loop
    length: int
    steps: int


def schedules(run: TrainingRun) -> Iterator[Schedule]:
    """The schedules of a run of which both are known."""
    ranks = ranks_of(run)
    for made in run.of_kind("scheduler"):
        steps = [event for event in run.of_kind("scheduler step") if event.subject is made.subject]
        total = _total(made)
        if total is None or not steps:
            continue
        found = _judged(run, ranks, made, steps[0], total)
        if found is not None:
            yield found


def _judged(run: TrainingRun, ranks: Ranks, made: Event, stepped: Event, total: list[Value]) -> Schedule | None:
    length = [_exponent(factor) for factor in total]
    loops = [loop for loop in stepped.loops if loop not in made.loops]
    if None in length or not loops:
        return None
    exponent = sum(each for each in length if each is not None)
    counts = [_count(ranks, loop) for loop in loops]
    repeats = sum(count for loop, count in zip(loops, counts, strict=True) if count and not _is_loader(loop))
    bounds = list(_bounds(run, loops))
    if len(total) == 1 and any(formula_of(bound) == formula_of(total[0]) for bound in bounds):
        # As many passes as the schedule is long, and so many steps in each.
        return Schedule(made, stepped, loops[0], exponent, exponent + repeats)
    counted = exponent != 0 or any(map(_is_length, total))
    if bounds or None in counts or not any(map(_is_loader, loops)) or not counted:
        return None
    over = next(loop for loop in loops if _is_loader(loop))
    return Schedule(made, stepped, over, exponent, sum(count for count in counts if count is not None))


def _total(made: Event) -> list[Value] | None:
    """The factors of the number of steps that a schedule is made for."""
    name = made.subject.cls.name if isinstance(made.subject, Instance) else ""
    if name not in _LENGTHS or not made.subject.is_a(f"{_MODULE}.{name}"):
        return None
    args = made.arguments.items if isinstance(made.arguments, Sequence) else None
    kwargs = made.options.entries if isinstance(made.options, Mapping) else {}
    for keyword, position in _LENGTHS[name]:
        value = kwargs.get(keyword)
        if value is None and args is not None and position is not None and position < len(args):
            value = args[position]
        if value is not None and not is_none(value):
            return [value]
    if name == "OneCycleLR" and "epochs" in kwargs and "steps_per_epoch" in kwargs:
        return [kwargs["epochs"], kwargs["steps_per_epoch"]]
    return None


def _exponent(value: Value | None) -> int | None:
    """The power of W by which a number grows with the ranks, where all that it is made of stays as it is."""
    found: set[int | None] = set()
    for one in options(value):
        if isinstance(one, Const):
            found.add(0)
        else:
            known = isinstance(one, Data) and one.facts.place.is_replicate
            found.add(one.facts.place.world if known and isinstance(one, Data) else None)
    return found.pop() if len(found) == 1 else None


def _is_length(value: Value, depth: int = 0) -> bool:
    """Was a number computed from how many examples or batches there are?"""
    for one in options(value):
        if not isinstance(one, Data) or depth > _DEEPEST:
            continue
        if isinstance(one.identity, tuple) and one.identity[:1] == ("len",):
            return True
        operands = one.made[1:] if one.made is not None else ()
        if any(isinstance(part, Value) and _is_length(part, depth + 1) for part in operands):
            return True
    return False


def _is_loader(loop: Loop) -> bool:
    return isinstance(loop.over, Instance)


def _count(ranks: Ranks, loop: Loop) -> int | None:
    """The power of W in the number of passes of a loop."""
    if isinstance(loop.over, Instance):
        return -1 if ranks.is_divided(loop.over) else None
    if loop.over is None:
        return None
    return _exponent(loop.count) if loop.count is not None else None


def _bounds(run: TrainingRun, loops: list[Loop]) -> Iterator[Value]:
    """What the number of passes is compared with where these loops end early."""
    for event in run.of_kind("bound", "break"):
        if event.loop in loops:
            tests = [event.test] if event.kind == "bound" else [guard.test for guard in event.guards]
            for test in tests:
                yield from _compared(test)


def _compared(test: Value | None) -> Iterator[Value]:
    for one in options(test):
        made = one.made if isinstance(one, Data) else None
        if made is not None and made[0] in _COMPARISONS:
            yield from (part for part in made[1:] if isinstance(part, (Const, Data, Choice)))
        elif made is not None and made[0] in ("and", "or", "not"):
            for part in made[1:]:
                yield from _compared(part)
