"""Ranks that do not start from the same weights, or do not keep them."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from tests.mutation.editing import Source, around, removed, to, with_argument
from tests.mutation.operator import RANK, RANK_BEFORE_INIT, Change, operator
from tests.mutation.operators.reductions import reductions
from tests.mutation.programs import WRAPPERS, Program

COPIED = r"broadcast|sync_module_states|load_state_dict|from_pretrained|accelerat|init_sync"
"""What makes weights equal whatever the seed."""


def common_seed(program: Program) -> Iterator[tuple[Source, cst.Call]]:
    """The first global seed of a program whose weights nothing else makes equal, if it is the same on every rank."""
    if program.engine in ("fsdp1", "fsdp2", "hand", "horovod") and not program.mentions(COPIED):
        for source, call in program.calls("manual_seed"):
            if source.name(call.func) in ("torch.manual_seed", "torch.random.manual_seed"):
                if "rank" not in source.code(call).lower() and isinstance(source.parent(call), cst.Expr):
                    yield source, call
                    return


@operator("DP102", why="the model is drawn from another random state on each rank, and nothing copies it")
def seed_by_rank(program: Program) -> Iterator[Change]:
    for source, call in common_seed(program):
        rank = "hvd.rank()" if program.engine == "horovod" else RANK_BEFORE_INIT
        seed = call.args[0].value
        yield Change(source, call, {seed: to(f"{source.code(seed)} + {rank}")})


@operator("DP101", why="the model is drawn from a random state of each rank's own, and nothing copies it")
def drop_seed(program: Program) -> Iterator[Change]:
    for source, call in common_seed(program):
        if len(list(program.calls("manual_seed"))) - program.code.count("Generator()") == 1:
            yield Change(source, call, {source.statement(call): removed})


@operator("DP101", "DP102", why="no common seed, and what copied the weights of one rank is gone")
def drop_broadcast(program: Program) -> Iterator[Change]:
    if program.engine not in ("hand", "horovod") or program.mentions(r"load_state_dict|(?<!\.)\bmanual_seed\("):
        return
    seeds = [source.code(call) for source, call in program.calls("manual_seed") if source.name(call.func)]
    if all("rank" in seed.lower() for seed in seeds):
        for source, call in program.calls("broadcast", "broadcast_parameters"):
            if isinstance(source.parent(call), cst.Expr):
                yield Change(source, call, {source.statement(call): removed})


def wraps(program: Program) -> Iterator[tuple[Source, cst.Call, cst.SimpleStatementLine, str]]:
    """The calls of DDP whose result gets a name, in a statement of its own."""
    if program.engine == "ddp":
        for source, call in program.calls(*WRAPPERS):
            name = source.assigned(call)
            if name and call.args and isinstance(source.parent(call), cst.Assign):
                yield source, call, source.statement(call), name


@operator("DP103", why="DDP copied the weights when it was made: what is edited on one rank later stays there")
def edit_on_one_rank(program: Program) -> Iterator[Change]:
    for source, call, statement, name in wraps(program):
        text = f"if {RANK} == 0:\n    with torch.no_grad():\n        next({name}.parameters()).mul_(0.5)\n"
        yield Change(source, call, {statement: around(after=text)})


@operator("DP104", why="DDP looked for what requires a gradient when it was made: what is thawed later stays local")
def thaw_after_wrap(program: Program) -> Iterator[Change]:
    if program.mentions(
        r"Scores\(|requires_grad|filter\("
    ):  # a model of one parameter; a program that freezes by itself
        return
    for source, call, statement, name in wraps(program):
        bare = call.args[0].value
        frozen = f"bare = {source.code(bare)}\nnext(bare.parameters()).requires_grad_(False)\n"
        thawed = f"next({name}.parameters()).requires_grad_(True)\n"
        yield Change(source, call, {bare: to("bare"), statement: around(frozen, thawed)})


@operator("DP105", why="FSDP1 replaces the parameters that the optimizer was given: it steps none of those that train")
def build_optimizer_before_wrap(program: Program) -> Iterator[Change]:
    for source, call in program.calls("FullyShardedDataParallel") if program.engine == "fsdp1" else ():
        model = source.assigned(call)
        for optimizer in source.find(cst.Call, source.function(call)):
            first = source.code(optimizer.args[0].value) if optimizer.args else ""
            name = source.assigned(optimizer)
            if model and name and first == f"{model}.parameters()":
                bare = call.args[0].value
                rest = source.code(optimizer).replace(first, "bare.parameters()", 1)
                text = f"bare = {source.code(bare)}\n{name} = {rest}\n"
                edits = {
                    bare: to("bare"),
                    call: with_argument("use_orig_params", "False"),
                    source.statement(call): around(text),
                    source.statement(optimizer): removed,
                }
                yield Change(source, optimizer, edits)


@operator(
    "DP106", why="the state moves with each rank's own batch, and DDP reduces gradients only", options=("--strict",)
)
def drop_statistics_reduction(program: Program) -> Iterator[Change]:
    if program.mentions("register_buffer"):
        for source, call, edit in reductions(program):
            function = source.function(call)
            if isinstance(function, cst.FunctionDef) and "no_grad" in "".join(map(source.code, function.decorators)):
                if "self." in source.code(function) and "optimizer" not in source.code(function):
                    yield Change(source, call, edit)


OPERATORS = (
    seed_by_rank,
    drop_seed,
    drop_broadcast,
    edit_on_one_rank,
    thaw_after_wrap,
    build_optimizer_before_wrap,
    drop_statistics_reduction,
)
