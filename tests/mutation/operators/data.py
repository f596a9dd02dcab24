"""Ranks that do not see disjoint data."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from tests.mutation.editing import (
    Source,
    argument,
    around,
    both,
    instead,
    removed,
    to,
    with_argument,
    without_argument,
)
from tests.mutation.operator import RANK_BEFORE_INIT, Change, operator
from tests.mutation.programs import Program


def training_loaders(program: Program) -> Iterator[tuple[Source, cst.Call, str]]:
    """The loaders that are given a shuffling DistributedSampler, and the text that names it."""
    names = {source.assigned(call): "" for source, call in program.shuffling}
    calls = {source.code(call) for source, call in program.shuffling}
    for source, call in program.calls("DataLoader"):
        sampler = argument(call, "sampler")
        if sampler is not None:
            text = source.code(sampler.value)
            if text in names or text in calls:
                yield source, call, text


@operator("DP201", why="every rank goes through the whole data set: the batches of an update hold the same examples")
def drop_sampler(program: Program) -> Iterator[Change]:
    for source, call, _ in training_loaders(program):
        edit = both(without_argument("sampler"), with_argument("shuffle", "True"))
        yield Change(source, call, {call: edit})


def unprepared(program: Program, name: str) -> Iterator[Change]:
    """What has `name` in its name is left out of accelerator.prepare, and out of what that returns."""
    for source, call in program.calls("prepare"):
        assign = source.parent(call)
        if program.engine == "accelerate" and isinstance(assign, cst.Assign):
            targets = assign.targets[0].target
            kept = [source.code(arg) for arg in call.args if name not in source.code(arg)]
            if isinstance(targets, cst.Tuple) and len(call.args) - len(kept) == 1 and len(kept) > 1:
                names = [source.code(each.value) for each in targets.elements]
                left = [each.rstrip(",") for each in names if name not in each]
                text = f"{', '.join(left)} = {source.code(call.func)}({', '.join(each.rstrip(',') for each in kept)})\n"
                yield Change(source, call, {source.statement(call): instead(text)})


@operator("DP201", why="only a prepared loader is sharded: every process goes through the whole data set")
def prepare_no_loader(program: Program) -> Iterator[Change]:
    yield from unprepared(program, "loader")


@operator("DP201", why="the Trainer is told to shard no loader, and the program does not do it either")
def keep_own_samplers(program: Program) -> Iterator[Change]:
    if program.mentions("ightning") and not program.mentions("Sampler"):
        for source, call in program.calls("Trainer"):
            yield Change(source, call, {call: with_argument("use_distributed_sampler", "False")})


@operator("DP203", why="a shuffling DistributedSampler draws its order from its epoch alone", options=("--epochs", "2"))
def drop_set_epoch(program: Program) -> Iterator[Change]:
    if not program.shuffling or program.engine == "accelerate":
        return
    calls = [(source, call) for source, call in program.calls("set_epoch") if several_epochs(program, source, call)]
    if len({source.path for source, _ in calls}) == 1:
        source, first = calls[0]
        yield Change(source, first, {source.statement(call): removed for _, call in calls})


def several_epochs(program: Program, source: Source, call: cst.Call) -> bool:
    """Stands in a loop over a range that is not of one epoch, or in a function that is called from one."""
    loops = [*source.above(call, cst.For)]
    function = source.function(call)
    if not loops and isinstance(function, cst.FunctionDef):
        for other, use in program.calls(function.name.value):
            loops += other.above(use, cst.For)
    return any("range(" in source.code(loop.iter) for loop in loops) and not program.mentions(r"epochs.{0,30}\b1\b")


@operator("DP205", why="each rank permutes in another order: the shards overlap, and examples are missed")
def seed_sampler_by_rank(program: Program) -> Iterator[Change]:
    if program.engine == "horovod":
        return
    for source, call in program.shuffling:
        yield Change(source, call, {call: with_argument("seed", RANK_BEFORE_INIT)})


@operator(
    "DP204", why="the first ranks of all machines read the same shard, and others go unread", options=("--nodes", "2")
)
def shard_by_local_rank(program: Program) -> Iterator[Change]:
    if program.engine == "horovod":
        return
    for source, call in program.shuffling:
        world = argument(call, "num_replicas")
        replicas = source.code(world.value) if world is not None else 'int(os.environ["WORLD_SIZE"])'
        rank = with_argument("rank", 'int(os.environ["LOCAL_RANK"])')
        yield Change(source, call, {call: both(with_argument("num_replicas", replicas), rank)})


@operator("DP206", why="the ranks split in different orders before they shard: what one trains on another holds out")
def split_by_rank(program: Program) -> Iterator[Change]:
    if program.engine == "horovod" or not program.mentions(r"import torch\b"):
        return
    for source, call in program.shuffling:
        data = call.args[0]
        if data.keyword is None and isinstance(data.value, cst.Name) and "[" not in source.code(call):
            statements = list(source.above(call, cst.SimpleStatementLine))
            if statements:
                name = data.value.value
                generator = f"torch.Generator().manual_seed({RANK_BEFORE_INIT})"
                text = f"{name} = torch.utils.data.random_split({name}, [0.75, 0.25], generator={generator})[0]"
                yield Change(source, call, {statements[-1]: around(text)})


@operator("DP201", "DP202", "DP208", why="what was this rank's part of the data becomes all of it, on every rank")
def read_all_parts(program: Program) -> Iterator[Change]:
    for source in program.sources:
        for subscript in source.find(cst.Subscript):
            text = source.code(subscript)
            if "::" in text and "rank" in text and "dist" not in text:
                yield Change(source, subscript, {subscript: to(source.code(subscript.value))})
        for call in source.calls("split_dataset_by_node", "islice"):
            if any("rank" in source.code(arg) for arg in call.args):
                yield Change(source, call, {call: to(source.code(call.args[0].value))})
        for call in source.find(cst.Call):
            if (
                isinstance(call.func, cst.Attribute)
                and call.func.attr.value == "shard"
                and argument(call, "num_shards")
            ):
                yield Change(source, call, {call: to(source.code(call.func.value))})


@operator("DP208", "DP202", why="all ranks draw from one random state, and so the same examples")
def seed_draws_alike(program: Program) -> Iterator[Change]:
    if program.mentions("DataLoader|Sampler") or not program.mentions(r"randint|randperm|choice"):
        return
    for source, call in program.calls("manual_seed", "default_rng", "RandomState", "Random", "seed"):
        if len(call.args) == 1 and isinstance(seed := call.args[0].value, cst.BinaryOperation):
            if "rank" in source.code(seed.right).lower():
                yield Change(source, call, {seed: to(source.code(seed.left))})


@operator(
    "DP210",
    why="no padding: where the world size does not divide the length, some ranks get more examples",
    options=None,
)
def stride_without_padding(program: Program) -> Iterator[Change]:
    if program.engine not in ("ddp", "hand", "fsdp1", "fsdp2") or program.mentions("set_epoch|drop_last|Join|shuffle"):
        return
    for source, call in program.shuffling:
        if len(call.args) == 1:
            data = source.code(call.args[0].value)
            shard = f"list(range({RANK_BEFORE_INIT}, len({data}), int(os.environ['WORLD_SIZE'])))"
            yield Change(source, call, {call: to(shard)})


OPERATORS = (
    drop_sampler,
    prepare_no_loader,
    keep_own_samplers,
    drop_set_epoch,
    seed_sampler_by_rank,
    shard_by_local_rank,
    split_by_rank,
    read_all_parts,
    seed_draws_alike,
    stride_without_padding,
)
