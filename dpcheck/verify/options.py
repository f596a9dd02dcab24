"""What a verification is asked for."""

from __future__ import annotations

import pathlib
from typing import Literal

import msgspec


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """`script` is a path, or with `module` the dotted name of one. `timeout` is in seconds, for each run.

    `caps` are the samples that each rank keeps of a batch, in rank order, repeated as needed; `uneven` halves the last
    rank's batches, so that a mean over equal counts shows. `nodes` divides `ranks`: as if a launcher had started them
    on so many machines, on each of which the local ranks count from 0. `keep` is a folder that is left with all
    recordings.
    """

    script: str
    module: bool = False
    arguments: tuple[str, ...] = ()
    directory: pathlib.Path = pathlib.Path()
    ranks: int = 2
    nodes: int = 1
    steps: int = 3
    epochs: int = 1
    window: Literal["first", "last"] = "first"
    dtype: Literal["float64", "float32"] = "float64"
    uneven: bool = False
    caps: tuple[int, ...] = ()
    strict: bool = False
    timeout: float = 600.0
    device: Literal["cpu", "cuda"] = "cpu"
    backend: Literal["gloo", "nccl"] = "gloo"
    keep: pathlib.Path | None = None
