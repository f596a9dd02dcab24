"""An averaged gradient that is not the gradient of the same objective."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from tests.mutation.editing import Edits, Source, around, to, with_argument
from tests.mutation.operator import RANK, WORLD, Change, operator
from tests.mutation.operators.reductions import reductions
from tests.mutation.programs import Program

WORLD_SIZE = re.compile(
    r"(\w+\.)*(world|world_size|WORLD|WORLD_SIZE|num_processes)|.*\bget_world_size\(\)|hvd\.size\(\)"
)
NO_LOSS = r"\blr\b|\.item\(|len\(|steps|range\(|rows|batch_size|world_size=|\[None\]"
MEANS = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")


def judged(program: Program) -> Iterator[tuple[Source, cst.Call, cst.BaseExpression]]:
    """The backwards of programs whose engine reduces what they leave."""
    if program.engine:
        yield from program.backwards()


def world(program: Program, source: Source, call: cst.Call) -> str:
    if program.engine == "accelerate":
        return f"{source.code(call.func).removesuffix('.backward')}.num_processes"
    return "hvd.size()" if program.engine == "horovod" else WORLD


@operator("DP304", why="the engine averages already: the gradient is as many times too large as there are ranks")
def multiply_by_world_size(program: Program) -> Iterator[Change]:
    for source, call, loss in judged(program):
        yield Change(source, call, {loss: to(f"{source.code(loss)} * {world(program, source, call)}")})


@operator("DP303", "DP306", why="the loss was right as it was: the ranks' share of it is divided once too often")
def divide_by_world_size(program: Program) -> Iterator[Change]:
    for source, call, loss in judged(program):
        yield Change(source, call, {loss: to(f"{source.code(loss)} / {world(program, source, call)}")})


@operator("DP303", "DP306", why="a plain all-reduce changes the value and not the gradient, which is then divided")
def average_loss_over_ranks(program: Program) -> Iterator[Change]:
    if program.engine == "ddp":
        for source, call, loss in judged(program):
            if isinstance(loss, cst.Name):
                reduced = around(f"torch.distributed.all_reduce({loss.value})\n")
                yield Change(source, call, {source.statement(call): reduced, loss: to(f"{loss.value} / {WORLD}")})


@operator("DP304", why="DDP has averaged the gradients when backward returns: adding them up multiplies them")
def sum_gradients_again(program: Program) -> Iterator[Change]:
    if program.engine != "ddp" or program.mentions(r"no_sync|require_backward_grad_sync|accum|find_unused"):
        return
    backwards = list(judged(program))
    if len(backwards) == 1 and len(program.wrapped) == 1:
        source, call, _ = backwards[0]
        model = next(iter(program.wrapped))
        if any(source.calls(model)) or any(source.code(each.func) == model for each in source.find(cst.Call)):
            text = f"for each in {model}.parameters():\n    torch.distributed.all_reduce(each.grad)\n"
            yield Change(source, call, {source.statement(call): around(after=text)})


def losses(program: Program, *names: str) -> Iterator[tuple[Source, cst.Call]]:
    """The calls of those loss functions, without options, whose mean is what backward is called for."""
    for source, _, loss in judged(program):
        for call in source.calls(*names):
            made = source.assigned(call) == source.code(loss) and source.function(call) is source.function(loss)
            if (
                (made or source.inside(call, loss))
                and len(call.args) == 2
                and not any(arg.keyword for arg in call.args)
            ):
                yield source, call


@operator(
    "DP301", why="the ranks hold different numbers of targets that are not of class 0, and average over their own"
)
def ignore_a_class(program: Program) -> Iterator[Change]:
    for source, call in losses(program, "cross_entropy"):
        yield Change(source, call, {call: with_argument("ignore_index", "0")})
    for source, call in program.calls("CrossEntropyLoss"):
        name = source.assigned(call)
        if not any(arg.keyword and arg.keyword.value in ("reduction", "weight", "ignore_index") for arg in call.args):
            if name and any(losses(program, name.rpartition(".")[2])):
                yield Change(source, call, {call: with_argument("ignore_index", "0")})


@operator("DP301", "DP302", why="the ranks hold different numbers of positive targets, and average over their own")
def mean_over_positive_targets(program: Program) -> Iterator[Change]:
    for source, call in losses(program, *MEANS):
        target = source.code(call.args[1].value)
        inside = source.code(call).removesuffix(")") + ', reduction="none")'
        yield Change(source, call, {call: to(f"{inside}[{target} > 0.5].mean()")})


@operator("DP301", "DP302", why="the loss sum is divided by the number of positive targets of this rank alone")
def divide_by_positive_targets(program: Program) -> Iterator[Change]:
    for source, call in losses(program, *MEANS):
        positive = f"({source.code(call.args[1].value)} > 0.5)"
        inside = source.code(call).removesuffix(")") + ', reduction="none")'
        yield Change(source, call, {call: to(f"({inside} * {positive}).sum() / {positive}.sum()")})


def counts(program: Program) -> Iterator[tuple[Source, cst.Call, Edits]]:
    """The reductions of a count that a loss is divided by."""
    if program.engine:
        for source, call, edits in reductions(program):
            function = source.function(call)
            decorators = function.decorators if isinstance(function, cst.FunctionDef) else ()
            evaluates = "no_grad" in "".join(map(source.code, decorators)) or "detach" in source.code(function)
            name = source.code(call.args[0].value)
            if not evaluates and _divides(source, function, call, name):
                yield source, call, edits


def _divides(source: Source, function: cst.CSTNode, call: cst.Call, name: str) -> bool:
    names = {name, source.assigned(call)} - {""}
    for division in source.find(cst.BinaryOperation, function):
        if isinstance(division.operator, cst.Divide):
            if any(re.search(rf"\b{re.escape(each)}\b", source.code(division.right)) for each in names):
                return not any(re.search(rf"\b{re.escape(each)}\b", source.code(division.left)) for each in names)
            if source.inside(call, division.right):
                return True
    return False


@operator("DP302", why="the count that divides the loss is of this rank alone, and the ranks' counts differ")
def drop_count_reduction(program: Program) -> Iterator[Change]:
    for source, call, edits in counts(program):
        yield Change(source, call, edits)


@operator("DP308", "DP302", why="each group of one rank counts its own targets, the gradients are reduced over all")
def count_in_a_small_group(program: Program) -> Iterator[Change]:
    for source, call, _ in counts(program):
        if source.name(call.func).endswith("distributed.all_reduce"):
            groups = f"for each in range({WORLD}):\n    group = torch.distributed.new_group([each])\n"
            own = f"    if each == {RANK}:\n        own = group\n"
            yield Change(
                source, call, {source.statement(call): around(groups + own), call: with_argument("group", "own")}
            )


@operator(
    "DP303",
    "DP304",
    "DP306",
    why="the program was right with the factor: without it the gradient is off by the world size",
)
def drop_world_size(program: Program) -> Iterator[Change]:
    for source in program.sources if program.engine else ():
        for operation in source.find(cst.BinaryOperation):
            if isinstance(operation.operator, (cst.Multiply, cst.Divide)) and _scales_loss(source, operation):
                if WORLD_SIZE.fullmatch(source.code(operation.right)):
                    yield Change(source, operation, {operation: to(source.code(operation.left))})


def _scales_loss(source: Source, operation: cst.BinaryOperation) -> bool:
    """In training, and no part of a log line, a metric, a learning rate, or a number of samples or steps."""
    function = source.function(operation)
    text = source.code(function) if isinstance(function, cst.FunctionDef) else ""
    outside = any(source.above(operation, cst.FormattedString)) or isinstance(operation.left, (cst.List, cst.Integer))
    line = next((source.code(each) for each in source.above(operation, cst.SimpleStatementLine)), "")
    return not outside and not re.search(NO_LOSS, line) and not re.search("no_grad|eval|detach", text)


@operator(
    "DP301", "DP302", why="the Trainer then takes the mean over each process's own labels, of which some are -100"
)
def average_tokens_by_process(program: Program) -> Iterator[Change]:
    if program.mentions(r"-100\b"):
        for source, call in program.calls("TrainingArguments"):
            yield Change(source, call, {call: with_argument("average_tokens_across_devices", "False")})


OPERATORS = (
    multiply_by_world_size,
    divide_by_world_size,
    average_loss_over_ranks,
    sum_gradients_again,
    ignore_a_class,
    mean_over_positive_targets,
    divide_by_positive_targets,
    drop_count_reduction,
    count_in_a_small_group,
    drop_world_size,
    average_tokens_by_process,
)
