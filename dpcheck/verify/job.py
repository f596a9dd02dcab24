"""What a process of a verified run is told to do: by value, so that it travels to a fork server as JSON."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

Mend: TypeAlias = Literal[
    "global-count",
    "times-world-size",
    "by-world-size",
    "average-gradients",
    "broadcast-weights",
    "shard-data",
]


INTERNAL = 70
"""Exit status of a process that failed in code of dpcheck's own, and left no recording."""

Order: TypeAlias = Literal["union", "sequence", "window"]


class Feed(msgspec.Struct):
    """Where a reference, or a rank whose run is repeated, gets its data: the recordings in `folders`, in rank order.

    `level`: "data", each batch of a loader is the union of the ranks' samples through the script's own collate
    function; "draws", random draws of the script return the ranks' draws one after the other; "forward", the
    outermost modules' inputs and the targets of torch's losses are the ranks' concatenated; "none", the script makes
    its own batches.
    `order`: "union", micro-batch i is the union of the ranks' i-th; "sequence", the script at world size 1 takes
    ranks x micro-batches one after the other; "window", every micro-batch is the union of the whole window.
    """

    folders: list[str]
    level: Literal["data", "draws", "forward", "none"] = "data"
    order: Order = "union"
    rank: int | None = None  # a rank that gets its own part alone back, not the union
    frozen_statistics: bool = False  # BatchNorm takes its statistics over each rank's rows apart
    perturbed: int = 0  # round the weights otherwise before each step, in the way of this number; 0: leave them


class Job(msgspec.Struct):
    """One process: a rank of the run, or a reference (world size 1).

    `folder` exists and is private; the process writes its recording, its output (`output.txt`), its status (`status`)
    and, on SIGUSR1, its stacks (`stack.txt`) there. `script` is a path, or with `module` the name of a module.
    """

    role: Literal["rank", "reference"]
    rank: int
    world_size: int
    folder: str
    shared: str  # a folder that all processes of this run share: stores of process groups
    script: str
    module: bool
    arguments: list[str]
    directory: str  # working directory of the script
    port: int
    nodes: int = 1  # machines over which the ranks of the run seem to be spread; a reference is one process of one
    steps: int = 3
    epochs: int = 1
    window: Literal["first", "last"] = "first"
    dtype: Literal["float64", "float32"] = "float64"
    device: Literal["cpu", "cuda"] = "cpu"
    backend: Literal["gloo", "nccl"] = "gloo"
    caps: list[int] = []  # samples kept of each batch, by rank
    uneven: bool = False  # halve the last rank's batches, so that the ranks' counts differ
    feed: Feed | None = None
    mend: Mend | None = None  # a counterfactual: the change made in memory, see hooks/mends.py
    seed: int | None = None  # one seed for random, numpy and torch in every rank; None: each its own
