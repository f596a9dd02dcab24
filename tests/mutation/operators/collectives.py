"""Ranks that do not issue the same collectives, or meet in files."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from tests.mutation.editing import Result, Source, around, removed, to, under
from tests.mutation.operator import RANK, Change, operator
from tests.mutation.operators.sync import reduces
from tests.mutation.operators.weights import wraps
from tests.mutation.programs import Program

COLLECTIVES = (
    "all_reduce",
    "barrier",
    "broadcast",
    "all_gather",
    "all_gather_object",
    "broadcast_object_list",
    "reduce",
)
RANK_TEST = re.compile(r"rank\(?\)?\s*(==|!=)|is_main|not \w*rank\b|RANK\s*(==|!=)")
FIRST_RANK = re.compile(r"([\w.]*rank|[\w.]*get_rank\(\)|RANK) == 0|.*is_main_process(\(\))?|hvd\.rank\(\) == 0")
WRITES = re.compile(r"torch\.save\(|json\.dump\(|open\([^)]*[\"']w|savefig\(")


def guarded(source: Source, node: cst.CSTNode) -> bool:
    """In a branch that a rank decides, or behind an exit that one does."""
    tests = [source.code(each.test) for each in source.above(node, cst.If)]
    function = source.function(node)
    early = [source.code(each.test) for each in source.find(cst.If, function) if any(source.find(cst.Return, each))]
    return any(RANK_TEST.search(test) for test in tests + early)


def collectives(program: Program) -> Iterator[tuple[Source, cst.Call, cst.SimpleStatementLine]]:
    """The statements that are one collective over all ranks, which all come to."""
    for source, call in program.calls(*COLLECTIVES):
        if source.name(call.func).startswith("torch.distributed") and isinstance(source.parent(call), cst.Expr):
            if "group" not in source.code(call) and not guarded(source, call):
                yield source, call, source.statement(call)


@operator("DP501", why="rank 0 waits in a collective that no other rank comes to")
def guard_a_collective(program: Program) -> Iterator[Change]:
    for source, call, statement in collectives(program):
        yield Change(source, call, {statement: under(f"if {RANK} == 0")})


@operator("DP501", why="rank 0 alone calls a function that holds a collective")
def guard_a_call(program: Program) -> Iterator[Change]:
    holders = {
        function.name.value
        for source, call, _ in collectives(program)
        if isinstance(function := source.function(call), cst.FunctionDef)
        and "init_process_group" not in source.code(function)
    } - {"main", "forward", "__init__"}
    for source, call in program.calls(*holders):
        parent = source.parent(call)
        if isinstance(parent, (cst.Assign, cst.Expr)) and not guarded(source, call):
            yield Change(source, call, {call: to(f"{source.code(call)} if {RANK} == 0 else 0.0")})


@operator(
    "DP501", why="FSDP1 gathers the shards of all ranks for a state dict, and rank 0 waits for the others", options=None
)
def guard_a_state_dict(program: Program) -> Iterator[Change]:
    for source, call in program.calls("state_dict") if program.engine == "fsdp1" else ():
        if isinstance(source.parent(call), cst.Assign) and not guarded(source, call):
            yield Change(source, call, {call: to(f"{source.code(call)} if {RANK} == 0 else None")})


@operator("DP502", "DP501", why="all ranks but the first leave, and the first waits in the collective that follows")
def leave_before_a_collective(program: Program) -> Iterator[Change]:
    for source, call, statement in collectives(program):
        function = source.function(call)
        if isinstance(function, cst.FunctionDef) and source.parent(statement) is function.body:
            yield Change(source, call, {statement: around(f"if {RANK} != 0:\n    return\n")})


def steps(program: Program) -> Iterator[tuple[Source, cst.Call, str]]:
    """The backwards of a named loss in a loop, in programs where one that is left out leaves the others waiting."""
    if program.engine and not program.mentions(r"Join|no_sync|require_backward"):
        for source, call, loss in program.backwards():
            loop = next(source.above(call, cst.For), None)
            if isinstance(loss, cst.Name) and loop is not None and source.function(loop) is source.function(call):
                block = source.siblings(source.statement(call))
                rest = block[block.index(source.statement(call)) :]
                waited_for = program.engine != "hand" or any(reduces(program, source, each) for each in rest)
                if waited_for and not re.search(rf"all_reduce\({loss.value}\b", program.code):
                    yield source, call, loss.value


@operator(
    "DP502",
    "DP601",
    why="a rank whose loss is not finite leaves the backward out that the others wait in",
    options=None,
)
def skip_a_bad_batch(program: Program) -> Iterator[Change]:
    for source, call, loss in steps(program):
        text = f"if not torch.isfinite({loss}):\n    continue\n"
        yield Change(source, call, {source.statement(call): around(text)})


@operator(
    "DP502",
    "DP601",
    why="a rank leaves the loop by its own loss, and the others wait in their next backward",
    options=None,
)
def stop_at_a_low_loss(program: Program) -> Iterator[Change]:
    for source, call, loss in steps(program):
        text = f"if {loss}.item() < 0.01:\n    break\n"
        yield Change(source, call, {source.statement(call): around(after=text)})


@operator("DP503", why="all ranks write the file that only the first one wrote", options=None)
def unguard_a_write(program: Program) -> Iterator[Change]:
    for source in program.sources:
        for branch in source.find(cst.If):
            body = source.code(branch.body)
            if branch.orelse is None and FIRST_RANK.fullmatch(source.code(branch.test)) and WRITES.search(body):
                yield Change(source, branch, {branch: unwrapped})
            elif WRITES.search(source.code(source.function(branch))) and body == "return":
                if RANK_TEST.search(source.code(branch.test)) and "!=" in source.code(branch.test):
                    yield Change(source, branch, {branch: removed})


def unwrapped(node: cst.CSTNode) -> Result:
    assert isinstance(node, cst.If)
    return cst.FlattenSentinel(node.body.body)


@operator("DP503", why="every rank writes the same file at the end of every epoch", options=None)
def write_on_every_rank(program: Program) -> Iterator[Change]:
    for source, call, _, name in wraps(program):
        function = source.function(call)
        for loop in source.find(cst.For, function):
            if source.code(loop.target) == "epoch" and "step()" in source.code(loop):
                last = loop.body.body[-1]
                text = f'torch.save({name}.state_dict(), "last.pt")\n'
                yield Change(source, call, {last: around(after=text)})


@operator("DP504", why="the ranks read what the first one may not have written yet", options=None)
def drop_barrier_before_read(program: Program) -> Iterator[Change]:
    for source, call, statement in collectives(program):
        if source.name(call.func).endswith("barrier"):
            block = source.siblings(statement)
            place = block.index(statement)
            follows = "\n".join(map(source.code, block[place + 1 :]))
            written = (
                place and isinstance(branch := block[place - 1], cst.If) and RANK_TEST.search(source.code(branch.test))
            )
            if written and WRITES.search(source.code(branch)) and re.search(r"\bopen\(|load\(", follows):
                yield Change(source, call, {statement: removed})


OPERATORS = (
    guard_a_collective,
    guard_a_call,
    guard_a_state_dict,
    leave_before_a_collective,
    skip_a_bad_batch,
    stop_at_a_low_loss,
    unguard_a_write,
    write_on_every_rank,
    drop_barrier_before_read,
)
