"""Gradients that are not synchronized."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from tests.mutation.editing import Edits, Result, Source, around, instead, removed, to, under
from tests.mutation.operator import Change, operator
from tests.mutation.operators.data import unprepared
from tests.mutation.operators.weights import wraps
from tests.mutation.programs import WRAPPERS, Program


def forwards(program: Program, source: Source, within: cst.CSTNode) -> Iterator[cst.Call]:
    """The calls of a DDP-wrapped model."""
    for call in source.find(cst.Call, within):
        if source.code(call.func) in program.wrapped:
            yield call


def training_forwards(program: Program) -> Iterator[tuple[Source, list[cst.Call]]]:
    """For each file, the forwards in functions that call backward too: all those of the training."""
    for source in program.sources if program.engine == "ddp" else ():
        functions = {source.function(call) for other, call, _ in program.backwards() if other is source}
        calls = [call for function in functions for call in forwards(program, source, function)]
        if calls:
            yield source, calls


@operator("DP401", why="no forward goes through the wrapper, so nothing prepares the reducer: gradients stay local")
def call_the_bare_module(program: Program) -> Iterator[Change]:
    found = list(training_forwards(program))
    if len(found) == 1:
        source, calls = found[0]
        edits: Edits = {call.func: to(f"{source.code(call.func)}.module") for call in calls}
        yield Change(source, calls[0], edits)


@operator(
    "DP404", why="nothing reduces the gradients of a model that is not wrapped, and its optimizer steps on each rank's"
)
def drop_wrap(program: Program) -> Iterator[Change]:
    if program.engine == "ddp" and not program.mentions(
        r"\.module\b|no_sync|require_backward|comm_hook|Join|_set_static"
    ):
        for source, call in program.calls(*WRAPPERS):
            yield Change(source, call, {call: to(source.code(call.args[0].value))})


@operator("DP402", why="every forward and backward is inside no_sync: no gradient is ever reduced")
def never_sync(program: Program) -> Iterator[Change]:
    if program.engine != "ddp" or program.mentions(r"no_sync|require_backward|Join") or len(program.wrapped) != 1:
        return
    for source, call, _ in program.backwards():
        last = source.statement(call)
        block = source.siblings(last)
        first = next((each for each in block if any(forwards(program, source, each))), None)
        if first is not None and block.index(first) <= block.index(last):
            inner = block[block.index(first) : block.index(last)]
            head = f"with {next(iter(program.wrapped))}.no_sync()"
            body = "".join(source.tree.code_for_node(each) for each in inner)
            if not inner:
                yield Change(source, call, {last: under(head)})
            elif all(isinstance(each, cst.SimpleStatementLine) for each in inner):
                lines = "".join(f"    {source.code(each)}\n" for each in inner if body)
                whole = f"{head}:\n{lines}    {source.code(last)}\n"
                edits = dict.fromkeys(inner, removed)
                yield Change(source, call, {**edits, last: instead(whole)})


@operator(
    "DP402", why="the micro-batches before the last are reduced and the last one is not", options=("--steps", "3")
)
def sync_the_others(program: Program) -> Iterator[Change]:
    for source in program.sources:
        for assign in source.find(cst.Assign):
            if source.code(assign.targets[0].target).endswith("require_backward_grad_sync"):
                yield Change(source, assign, {assign.value: to(f"not ({source.code(assign.value)})")})
        for choice in source.find(cst.IfExp):
            if "no_sync" in source.code(choice) and "nullcontext" in source.code(choice):
                one, other = choice.body, choice.orelse
                yield Change(source, choice, {one: to(source.code(other)), other: to(source.code(one))})


@operator("DP403", why="inside no_sync the gradients are each rank's own, and so is the norm that they are scaled by")
def clip_micro_batches(program: Program) -> Iterator[Change]:
    if program.mentions(r"no_sync") and len(program.wrapped) == 1:
        model = next(iter(program.wrapped))
        for source, call, _ in program.backwards():
            if any(source.above(call, cst.With)) and f"{model}.no_sync" in source.code(source.function(call)):
                text = f"torch.nn.utils.clip_grad_norm_({model}.parameters(), 0.01)\n"
                yield Change(source, call, {source.statement(call): around(after=text)})


@operator("DP403", why="each rank scales by the norm of its own gradients, which the reduction then mixes")
def clip_before_reduction(program: Program) -> Iterator[Change]:
    if program.engine != "hand":
        return
    for source, call, _ in program.backwards():
        statement = source.statement(call)
        block = source.siblings(statement)
        rest = block[block.index(statement) + 1 :]
        models = set(re.findall(r"(?<![\w.])(\w+)\.parameters\(\)", source.code(source.function(call))))
        if len(models) == 1 and any(reduces(program, source, each) for each in rest):
            text = f"torch.nn.utils.clip_grad_norm_({models.pop()}.parameters(), 0.01)\n"
            yield Change(source, call, {statement: around(after=text)})


@operator("DP403", why="the norm is of this rank's shards alone: FSDP1 has a method of its own for the whole")
def clip_own_shards(program: Program) -> Iterator[Change]:
    if program.engine == "fsdp1":
        for source, call in program.calls("clip_grad_norm_"):
            if isinstance(call.func, cst.Attribute) and len(call.args) == 1:
                model = source.code(call.func.value)
                yield Change(source, call, {call: to(f"torch.nn.utils.clip_grad_norm_({model}.parameters(), 0.01)")})


def emptied(node: cst.CSTNode) -> Result:
    """No statement, or the name that one gives with nothing in it."""
    if isinstance(node, cst.SimpleStatementLine) and isinstance(assign := node.body[0], cst.Assign):
        return node.with_changes(body=[assign.with_changes(value=cst.List([]))])
    return removed(node)


def reduces(program: Program, source: Source, statement: cst.CSTNode) -> bool:
    """A statement that reduces gradients, or calls a function that does."""
    helpers = {
        function.name.value
        for other, call in program.calls("all_reduce", "all_reduce_coalesced")
        if isinstance(function := other.function(call), cst.FunctionDef) and "grad" in other.code(function)
    } - {"main"}
    return any(source.calls("all_reduce", *helpers, within=statement)) and (
        ".grad" in source.code(statement) or any(source.calls(*helpers, within=statement))
    )


@operator("DP404", why="only a prepared model is wrapped: nothing reduces the gradients of this one")
def prepare_no_model(program: Program) -> Iterator[Change]:
    yield from unprepared(program, "model")


@operator("DP404", why="the gradients are of this rank alone, and nothing else reduces them")
def drop_hand_reduction(program: Program) -> Iterator[Change]:
    if program.engine != "hand":
        return
    for source, call, _ in program.backwards():
        statement = source.statement(call)
        block = source.siblings(statement)
        found = [each for each in block[block.index(statement) + 1 :] if reduces(program, source, each)]
        if len(found) == 1:
            yield Change(source, found[0], {found[0]: emptied})


@operator("DP404", why="the first parameter is left out of the reduction by hand")
def forget_a_parameter(program: Program) -> Iterator[Change]:
    if program.engine != "hand":
        return
    for source in program.sources:
        for loop in source.find(cst.For):
            text = source.code(loop.iter)
            if (
                text.endswith(".parameters()")
                and ".grad" in source.code(loop.body)
                and any(source.calls("all_reduce", within=loop))
            ):
                yield Change(source, loop, {loop.iter: to(f"list({text})[1:]")})


@operator("DP404", why="a parameter beside the wrapped model is stepped by each rank's own gradient")
def train_a_bare_parameter(program: Program) -> Iterator[Change]:
    for source, call, _, name in wraps(program):
        function = source.function(call)
        optimizers = [
            each
            for each in source.find(cst.Call, function)
            if each.args
            and source.code(each.args[0].value) == f"{name}.parameters()"
            and "optim" in source.name(each.func)
        ]
        backwards = [
            loss for other, each, loss in program.backwards() if other is source and source.function(each) is function
        ]
        if len(optimizers) == len(backwards) == 1:
            (optimizer,), (loss,) = optimizers, backwards
            edits = {
                source.statement(optimizer): around("heat = torch.nn.Parameter(torch.zeros(()))\n"),
                optimizer.args[0].value: to(f"[heat, *{name}.parameters()]"),
                loss: to(f"{source.code(loss)} * heat.exp()"),
            }
            yield Change(source, call, edits)


OPERATORS = (
    call_the_bare_module,
    drop_wrap,
    never_sync,
    sync_the_others,
    clip_before_reduction,
    clip_micro_batches,
    clip_own_shards,
    prepare_no_model,
    drop_hand_reduction,
    forget_a_parameter,
    train_a_bare_parameter,
)
