"""What is measured and scheduled without counting every rank."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from tests.mutation.editing import Edits, Source, around, to
from tests.mutation.operator import WORLD, Change, operator
from tests.mutation.operators.collectives import steps
from tests.mutation.operators.reductions import reductions
from tests.mutation.programs import Program

LENGTHS = ("T_max", "total_iters", "total_steps", "num_training_steps")


def epochs(program: Program) -> Iterator[tuple[Source, cst.Call, cst.For, str]]:
    """The loops over epochs around a loop over batches with a backward of a named loss."""
    for source, call, loss in steps(program):
        loops = [each for each in source.above(call, cst.For) if source.function(each) is source.function(call)]
        if len(loops) == 2 and "range(" in source.code(loops[1].iter):
            yield source, call, loops[1], loss


@operator(
    "DP601", "DP502", why="each rank ends the training by its own loss: they stop in different epochs", options=None
)
def stop_early_by_own_loss(program: Program) -> Iterator[Change]:
    for source, call, loop, loss in epochs(program):
        text = f"if {loss}.item() < 0.1:\n    break\n"
        yield Change(source, call, {loop.body.body[-1]: around(after=text)})


@operator("DP601", why="each rank cuts its learning rate by its own loss: the weights part", options=None)
def plateau_of_own_loss(program: Program) -> Iterator[Change]:
    for source, call, loop, loss in epochs(program):
        for statement in source.find(cst.SimpleStatementLine, source.function(call)):
            if made := re.match(r"(\w+) = torch\.optim\.\w+\(", source.code(statement)):
                plateau = f"plateau = torch.optim.lr_scheduler.ReduceLROnPlateau({made[1]}, patience=0)\n"
                step = f"plateau.step({loss}.item())\n"
                edits: Edits = {statement: around(after=plateau), loop.body.body[-1]: around(after=step)}
                yield Change(source, call, edits)
                break


@operator("DP601", "DP602", "DP502", why="what the ranks decide by is a value of each one's own")
def drop_metric_reduction(program: Program) -> Iterator[Change]:
    if program.mentions(r"patience|plateau|Plateau|stop\("):
        for source, call, edits in reductions(program):
            function = source.function(call)
            if isinstance(function, cst.FunctionDef) and "no_grad" in "".join(map(source.code, function.decorators)):
                yield Change(source, call, edits)


def schedules(program: Program) -> Iterator[tuple[Source, cst.BaseExpression]]:
    """The lengths of schedules in batches of this rank."""
    if program.engine in ("ddp", "hand"):
        for source in program.sources:
            for arg in source.find(cst.Arg):
                if arg.keyword is not None and arg.keyword.value in LENGTHS and "len(" in source.code(arg):
                    yield source, arg.value


@operator("DP605", why="the schedule is in steps of one rank: it ends before a share of it is done", options=None)
def schedule_for_all_ranks(program: Program) -> Iterator[Change]:
    for source, length in schedules(program):
        yield Change(source, length, {length: to(f"{source.code(length)} * {WORLD}")})


@operator(
    "DP605", why="a rank's batches are a share already: the schedule is over long before the training", options=None
)
def schedule_divided_twice(program: Program) -> Iterator[Change]:
    for source, length in schedules(program):
        yield Change(source, length, {length: to(f"{source.code(length)} // {WORLD}")})


OPERATORS = (
    stop_early_by_own_loss,
    plateau_of_own_loss,
    drop_metric_reduction,
    schedule_for_all_ranks,
    schedule_divided_twice,
)
