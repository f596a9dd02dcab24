"""What the processes of a run left, as the judges read it: recordings, endings, gradients over common coordinates."""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
import math
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open

from dpcheck.verify.judge.compare import Array, Space, Tensors
from dpcheck.verify.recording import Place, Recording, Share, Window, tensors_file
from dpcheck.verify.status import Status

How: TypeAlias = Literal["finished", "exited", "killed", "hung", "timed-out"]
Coordinates: TypeAlias = NDArray[np.int64]


@dataclasses.dataclass(frozen=True)
class Ending:
    """How a process ended. "finished": it left a recording; "exited", by itself without one; "killed" by a signal that
    dpcheck did not send; "hung", all ranks stood still; "timed-out", the run took too long. `last` is its last sign
    of life.
    """

    how: How
    status: int | None = None
    signal: str = ""  # its name
    last: Status = dataclasses.field(default_factory=Status)
    stacks: str = ""
    output: str = ""
    seconds: float = 0.0


@dataclasses.dataclass(frozen=True)
class Process:
    """A rank or a reference: its recording, None where it left none, and the folder with its tensors."""

    recording: Recording | None
    folder: pathlib.Path
    ending: Ending = Ending("finished")

    @property
    def windows(self) -> list[Window]:
        return self.recording.windows if self.recording is not None else []


@dataclasses.dataclass(frozen=True)
class Settings:
    """What the run was asked for, as far as the judges care."""

    dtype: str = "float64"
    strict: bool = False
    steps: int = 3
    epochs: int = 1
    nodes: int = 1
    uneven: bool = False
    capped: bool = False
    script: str = ""  # absolute path, or the name of a module
    arguments: list[str] = dataclasses.field(default_factory=list)


class Evidence:
    """All that a verdict rests on. `references` are runs of one process, by name:

    "union": micro-batch i is the union of the ranks' i-th; "sequence": the micro-batches of all ranks one after the
    other; "window": every micro-batch is the union of the whole window; "frozen-statistics": as the main one, with
    BatchNorm's statistics taken over each rank's rows apart; "perturbed-…": as the main one, its weights changed by
    rounding. `main` names the one that stands for the single process; where there is none, `failure` says why.
    """

    def __init__(
        self,
        ranks: Sequence[Process],
        references: Mapping[str, Process] | None = None,
        *,
        main: str | None = None,
        failure: str = "",
        settings: Settings | None = None,
        seconds: float = 0.0,
    ) -> None:
        self.ranks = list(ranks)
        self.references = dict(references or {})
        self.main = main if main in self.references else None
        self.failure = failure
        self.settings = settings or Settings()
        self.seconds = seconds

    @property
    def world_size(self) -> int:
        return len(self.ranks)

    @property
    def recordings(self) -> list[Recording]:
        """The ranks' recordings. Fewer than ranks where a process left none."""
        return [rank.recording for rank in self.ranks if rank.recording is not None]

    @functools.cached_property
    def steps(self) -> list[int]:
        """The numbers of the windows that all ranks closed."""
        closed = [{window.index for window in rank.windows} for rank in self.ranks]
        return sorted(set.intersection(*closed)) if closed else []

    def window(self, step: int) -> WindowEvidence:
        return self._window(step)

    @functools.lru_cache(maxsize=2)  # noqa: B019 - the judges go through the windows one after the other
    def _window(self, step: int) -> WindowEvidence:
        ranks = [Side(_with_index(rank.windows, step), rank.folder) for rank in self.ranks]
        references = {
            name: Side(window, process.folder)
            for name, process in self.references.items()
            if (window := _find(process.windows, step)) is not None
        }
        return WindowEvidence(step, ranks, references, self.main)


def _find(windows: Iterable[Window], index: int) -> Window | None:
    return next((window for window in windows if window.index == index), None)


def _with_index(windows: Iterable[Window], index: int) -> Window:
    found = _find(windows, index)
    if found is None:
        raise KeyError(index)
    return found


class Side:
    """One process's part of a window: what it recorded, and the tensors in its file, read when they are asked for."""

    def __init__(self, window: Window, folder: pathlib.Path) -> None:
        self.window = window
        self._file = tensors_file(folder, window.index)
        self.gradients = {share.name: share for share in window.gradients}
        self.weights = {share.name: share for share in window.weights}

    @functools.cached_property
    def _opened(self) -> Any:
        return safe_open(self._file, framework="numpy") if self._file.exists() else None

    @functools.cached_property
    def keys(self) -> frozenset[str]:
        return frozenset(self._opened.keys()) if self._opened is not None else frozenset()

    def tensor(self, key: str) -> Array | None:
        """A tensor of the window's file in double precision, flat."""
        if key not in self.keys:
            return None
        found: Array = np.asarray(self._opened.get_tensor(key)).reshape(-1).astype(np.float64)
        return found

    def micro_batches(self) -> list[int]:
        """The numbers of the backwards of which parts were kept."""
        return sorted({int(key.split("/", 2)[1]) for key in self.keys if key.startswith("micro/")})


class WindowEvidence:
    """The gradients of one window, over coordinates that all ranks and all references have of each tensor.

    What a rank observed is the whole tensor: its own under DDP, put together from the ranks' shares under FSDP. A
    parameter without a gradient counts as zero where the optimizer has it, and is missing where it does not.
    """

    def __init__(self, step: int, ranks: list[Side], references: dict[str, Side], main: str | None) -> None:
        self.step = step
        self.ranks = ranks
        self.references = references
        self.main = references.get(main) if main is not None else None
        self.one_sided: dict[str, str] = {}  # tensors that cannot be compared with the reference's, and why
        self._replicas: dict[str, list[tuple[int, ...]]] = {}
        self._grids: dict[str, Coordinates] = {}
        thinning: dict[str, float] = {}
        for name in self._names():
            grid = self._grid(name)
            if grid is None:
                continue
            self._grids[name] = grid
            size = _elements(self._share(name))
            thinning[name] = size / len(grid) if len(grid) else 1.0
        self._thinning = thinning
        self.space = self.space_over(self._grids)

    @property
    def windows(self) -> list[Window]:
        return [side.window for side in self.ranks]

    def space_over(self, names: Iterable[str]) -> Space:
        """The coordinates of some of the tensors."""
        return Space({name: len(self._grids[name]) for name in names}, self._thinning)

    @property
    def names(self) -> tuple[str, ...]:
        return self.space.names

    @property
    def comparable(self) -> tuple[str, ...]:
        """The tensors that both the ranks and the main reference have."""
        return tuple(name for name in self.names if name not in self.one_sided)

    def parameters(self) -> int:
        """How many numbers the compared tensors hold, before thinning."""
        return sum(_elements(self._share(name)) for name in self.comparable)

    def holds(self, rank: int, name: str) -> bool:
        """Whether the rank's optimizer has the parameter at all."""
        side = self.ranks[rank]
        return name in side.weights or name in side.gradients

    def lacks(self, rank: int, name: str) -> bool:
        """Whether the rank steps the parameter and holds some of it, but there is no gradient."""
        side = self.ranks[rank]
        weight = side.weights.get(name)
        return name not in side.gradients and weight is not None and weight.stop > weight.start

    def sharded(self, name: str) -> bool:
        return any(len(group) > 1 for group in self._replicas.get(name, []))

    def observed(self, rank: int) -> Tensors:
        """The gradients that the rank's optimizer is about to use."""
        return self._assembled("gradient", rank)

    def unclipped(self, rank: int) -> Tensors | None:
        """The gradients before the script clipped them, those that it left alone as they are. None: it clipped none."""
        if all(side.window.clipped is None for side in self.ranks):
            return None
        return {**self._assembled("gradient", rank), **self._assembled("unclipped", rank)}

    @functools.cached_property
    def locals(self) -> list[Tensors] | None:
        """Each rank's own gradients, the sum over the window. None where they could not be seen."""
        if not all(side.window.local for side in self.ranks):
            return None
        found = [self._own(side, "local/") for side in self.ranks]
        seen = {name for each in found for name in each}
        observed = {name for side in self.ranks for name in side.gradients}
        return found if observed & set(self.names) <= seen else None

    @functools.cached_property
    def parts(self) -> list[list[Tensors]] | None:
        """Each rank's own gradients, backward by backward. None where not all of them were kept."""
        if self.locals is None:
            return None
        if all(side.window.backwards <= 1 for side in self.ranks):
            return [[own] for own in self.locals]
        parts = [[self._own(side, f"micro/{number}/") for number in side.micro_batches()] for side in self.ranks]
        whole = all(len(each) == side.window.backwards for each, side in zip(parts, self.ranks, strict=True))
        return parts if whole else None

    def reference(self, name: str) -> Tensors | None:
        """The gradients of a reference; `name` as in `Evidence.references`."""
        return self._referenced(name, "gradient")

    def unclipped_reference(self, name: str) -> Tensors | None:
        """Those before the reference clipped them."""
        return self._referenced(name, "unclipped")

    def target_weights(self, side: Side) -> list[Array | None]:
        """For each loss of the window, the weights of its targets in that process's gradient."""
        return [
            side.tensor(f"target/{number}") if loss.weighed else None for number, loss in enumerate(side.window.losses)
        ]

    # -- how the tensors are put together

    def _names(self) -> list[str]:
        """Every tensor that some rank steps with a gradient, or that a rank steps and the main reference has one of."""
        names = dict.fromkeys(name for side in self.ranks for name in side.gradients)
        if self.main is not None:
            for name in self.main.gradients:
                if any(self.holds(rank, name) for rank in range(len(self.ranks))):
                    names.setdefault(name)
                else:
                    self.one_sided[name] = "only the one process steps it"
            for name in names:
                if name not in self.main.gradients and name not in self.main.weights:
                    self.one_sided[name] = "the one process does not step it"
        return list(names)

    def _share(self, name: str) -> Share:
        return next(side.gradients[name] for side in self._all() if name in side.gradients)

    def _all(self) -> list[Side]:
        return [*self.ranks, *self.references.values()]

    def _grid(self, name: str) -> Coordinates | None:
        """The coordinates that every side has of the tensor; None where there are none."""
        holders = {rank: side.gradients[name] for rank, side in enumerate(self.ranks) if name in side.gradients}
        self._replicas[name] = _replicas(holders)
        layouts = [tuple(_extent(holders[rank]) for rank in group) for group in self._replicas[name]]
        layouts += [(_extent(side.gradients[name]),) for side in self.references.values() if name in side.gradients]
        if len({tuple(side.gradients[name].shape) for side in self._all() if name in side.gradients}) > 1:
            self.one_sided[name] = "its shape differs"
            return None
        grid = _coordinates(layouts[0])
        for layout in dict.fromkeys(layouts[1:]):
            if layout != layouts[0]:
                grid = np.intersect1d(grid, _coordinates(layout), assume_unique=True)
        if not len(grid) and _elements(self._share(name)):
            self.one_sided[name] = "no element of it was kept on both sides"
            return None
        return grid

    def _assembled(self, kind: str, rank: int) -> Tensors:
        found: Tensors = {}
        for name, grid in self._grids.items():
            group = self._group_of(name, rank)
            if group is None:
                if self.holds(rank, name) and kind == "gradient":
                    found[name] = np.zeros(len(grid))
                continue
            parts = [self.ranks[member].tensor(f"{kind}/{name}") for member in group]
            if any(part is None for part in parts):
                continue
            layout = tuple(_extent(self.ranks[member].gradients[name]) for member in group)
            values = np.concatenate([part for part in parts if part is not None])
            found[name] = _taken(values, layout, grid)
        return found

    def _group_of(self, name: str, rank: int) -> tuple[int, ...] | None:
        """The ranks whose shares make up the tensor as this rank knows it."""
        groups = self._replicas[name]
        own = next((group for group in groups if rank in group), None)
        if own is not None:
            return own
        weight = self.ranks[rank].weights.get(name)
        elsewhere = weight is not None and weight.stop - weight.start < _elements(weight)
        return groups[0] if groups and elsewhere else None

    def _own(self, side: Side, prefix: str) -> Tensors:
        found: Tensors = {}
        for name, grid in self._grids.items():
            values = side.tensor(f"{prefix}{name}")
            if values is None:
                continue
            share = side.gradients.get(name) or side.weights.get(name)
            if share is None:
                continue
            layout = (_extent(share),)
            if len(values) == len(_coordinates(layout)) and _covers(_coordinates(layout), grid):
                found[name] = _taken(values, layout, grid)
        return found

    def _referenced(self, reference: str, kind: str) -> Tensors | None:
        side = self.references.get(reference)
        if side is None:
            return None
        found: Tensors = {}
        for name, grid in self._grids.items():
            share = side.gradients.get(name)
            if share is None:
                found[name] = np.zeros(len(grid))
                continue
            values = side.tensor(f"{kind}/{name}")
            if values is None and kind == "unclipped":
                values = side.tensor(f"gradient/{name}")
            if values is not None:
                found[name] = _taken(values, (_extent(share),), grid)
        return found


_Extent: TypeAlias = tuple[int, int, int]


def _elements(share: Share) -> int:
    """How many elements the whole tensor has."""
    return math.prod(tuple(share.shape))


def _extent(share: Share) -> _Extent:
    return share.start, share.stop, share.stride


@functools.lru_cache(maxsize=512)
def _coordinates(layout: tuple[_Extent, ...]) -> Coordinates:
    return np.concatenate([np.arange(start, stop, stride, dtype=np.int64) for start, stop, stride in layout])


def _covers(coordinates: Coordinates, grid: Coordinates) -> bool:
    """Whether a layout has every coordinate of the grid: one rank's share of a sharded tensor does not."""
    if len(coordinates) == len(grid):
        return True
    places = np.searchsorted(coordinates, grid)
    return bool((places < len(coordinates)).all() and (coordinates[places] == grid).all())


def _taken(values: Array, layout: tuple[_Extent, ...], grid: Coordinates) -> Array:
    """The values at the coordinates of the grid."""
    coordinates = _coordinates(layout)
    if len(coordinates) == len(grid):
        return values
    return values[np.searchsorted(coordinates, grid)]


def _replicas(holders: Mapping[int, Share]) -> list[tuple[int, ...]]:
    """The groups of ranks that hold a tensor once among them: single ranks under DDP, all of them under FSDP."""
    by_range: dict[tuple[int, int], list[int]] = collections.defaultdict(list)
    for rank, share in holders.items():
        by_range[(share.start, share.stop)].append(rank)
    ranges = sorted(by_range)
    apart = all(left[1] <= right[0] for left, right in itertools.pairwise(ranges))
    if len(ranges) <= 1 or not apart:
        return [(rank,) for rank in holders]
    copies = min(len(by_range[each]) for each in ranges)
    return [tuple(by_range[each][copy] for each in ranges) for copy in range(copies)]


def model_of(name: str) -> int | None:
    """The number of the model that a parameter or buffer belongs to; None for one that no module owns."""
    head = name.partition(".")[0]
    return int(head) if head.isdigit() else None


def known(*places: Place | None) -> Place:
    """The first of the places that is one."""
    return next((place for place in places if place is not None and place.path), Place())
