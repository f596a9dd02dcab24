"""Recordings of runs that never ran: linear models, whose gradients are sums over targets and follow from the weights.

Target j of micro-batch i on rank r has a gradient of its own, v[r][i][j], and every weighting of the targets is a
training script: 1/n of the rank's own is a per-rank mean, 1/N of all ranks' is what one process does.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from dpcheck.verify import recording
from dpcheck.verify.judge.evidence import Ending, Evidence, Process, Settings
from dpcheck.verify.recording import (
    Collective,
    Fetch,
    Loader,
    Loss,
    Place,
    Recording,
    Share,
    Window,
    Wrap,
    tensors_file,
)

Array = NDArray[np.float64]
Tensors = dict[str, Array]

SHAPES = {"0.embed.weight": (6, 4), "0.head.weight": (3, 4), "0.head.bias": (3,)}
SCRIPT = "/project/train.py"

FORWARD, LOSS, STEP, WRAP, LOADER, LOOP, CLIP = (Place(SCRIPT, line) for line in (40, 41, 44, 20, 15, 38, 43))


def digest(array: Array) -> str:
    return hashlib.blake2b(np.ascontiguousarray(array).tobytes(), digest_size=12).hexdigest()


def share(name: str, array: Array, start: int = 0, stop: int | None = None, stride: int = 1) -> Share:
    flat = array.reshape(-1)
    stop = flat.size if stop is None else stop
    held = flat[start:stop]
    return Share(name, list(array.shape), start, stop, stride, digest(held), float(np.linalg.norm(held)))


def plus(*parts: Mapping[str, Array]) -> Tensors:
    return {name: np.sum([part[name] for part in parts], axis=0) for name in parts[0]}


def scaled(tensors: Mapping[str, Array], by: float) -> Tensors:
    return {name: tensor * by for name, tensor in tensors.items()}


@dataclasses.dataclass
class Step:
    """A window to be written: the gradients that the optimizer uses, and whatever else was seen."""

    gradient: Tensors
    local: Tensors | None = None
    micro: Sequence[Tensors] = ()
    unclipped: Tensors | None = None
    weights: Tensors | None = None
    targets: Sequence[tuple[Loss, Array | None]] = ()
    backwards: int = 1
    forwards: int = 1
    missing: Sequence[str] = ()
    range: tuple[float, float] = (0.0, 1.0)  # the part of each tensor that the process holds
    stride: int = 1
    changes: Mapping[str, Any] = dataclasses.field(default_factory=dict)


class World:
    """Writes ranks and references below a folder, and gathers them as evidence."""

    def __init__(self, folder: Path, counts: Sequence[Sequence[int]] = ((9,), (3,)), steps: int = 2) -> None:
        self.folder = folder
        self.counts = counts
        self.steps = steps
        random = np.random.default_rng(7)
        self.vectors = [
            [[[self._vector(random) for _ in range(count)] for count in micro] for micro in counts]
            for _ in range(steps)
        ]
        self.weights = [self._vector(random) for _ in range(steps)]
        self.shapes = dict(SHAPES)
        self.ranks: list[Process] = []
        self.references: dict[str, Process] = {}
        self.settings = Settings(script=SCRIPT, steps=steps)

    @staticmethod
    def _vector(random: np.random.Generator) -> Tensors:
        return {name: random.standard_normal(shape) for name, shape in SHAPES.items()}

    @property
    def world_size(self) -> int:
        return len(self.counts)

    def total(self, micro: int | None = None) -> int:
        return sum(sum(own) if micro is None else own[micro] for own in self.counts)

    # -- gradients

    def part(self, step: int, rank: int, micro: int, weight: float) -> Tensors:
        """The gradient of one micro-batch of one rank, every target weighing the same."""
        return scaled(plus(*self.vectors[step][rank][micro]), weight)

    def local_parts(self, step: int, rank: int, weight: Callable[[int, int], float]) -> list[Tensors]:
        """By micro-batch; `weight(rank, micro)` is that of each target."""
        return [self.part(step, rank, micro, weight(rank, micro)) for micro in range(len(self.counts[rank]))]

    def whole(self, step: int, weight: Callable[[int], float]) -> Tensors:
        """The gradient of one process on all targets; `weight(micro)`."""
        return plus(
            *(
                self.part(step, rank, micro, weight(micro))
                for rank in range(self.world_size)
                for micro in range(len(self.counts[rank]))
            )
        )

    # -- scripts

    def mean_of_own(self, rank: int, micro: int) -> float:
        """1/n of the rank's own micro-batch, divided by the number of micro-batches."""
        return 1 / self.counts[rank][micro] / len(self.counts[rank])

    def global_mean(self, rank: int, micro: int) -> float:
        """W/N: what gives the mean over all targets of a micro-batch once the ranks are averaged."""
        return self.world_size / self.total(micro) / len(self.counts[rank])

    def window_mean(self, rank: int, micro: int) -> float:
        """W/N of the whole window."""
        return self.world_size / self.total()

    def one_process(self, micro: int) -> float:
        """1/N of the micro-batch over all ranks, divided by the number of micro-batches."""
        return 1 / self.total(micro) / len(self.counts[0])

    def losses(
        self, rank: int, weight: Callable[[int, int], float], *, reduction: str = "mean"
    ) -> list[tuple[Loss, Array | None]]:
        return [
            (
                Loss("cross_entropy", reduction, count, count, micro, LOSS, weighed=True),
                np.full(count, weight(rank, micro)),
            )
            for micro, count in enumerate(self.counts[rank])
        ]

    def reference_losses(self, weight: Callable[[int], float]) -> list[tuple[Loss, Array | None]]:
        return [
            (
                Loss("cross_entropy", "mean", self.total(micro), self.total(micro), micro, LOSS, weighed=True),
                np.full(self.total(micro), weight(micro)),
            )
            for micro in range(len(self.counts[0]))
        ]

    def train(
        self,
        weight: Callable[[int, int], float],
        *,
        combine: Callable[[list[Tensors], int], Tensors] | None = None,
        reduction: str = "mean",
        change: Callable[[Step, int, int], None] | None = None,
        **recorded: Any,
    ) -> World:
        """Write the ranks. `combine(locals, rank)` makes the gradient that a rank uses: their mean, unless given."""
        for rank in range(self.world_size):
            steps = []
            for number in range(self.steps):
                parts = [self.local_parts(number, each, weight) for each in range(self.world_size)]
                own = [plus(*each) for each in parts]
                gradient = combine(own, rank) if combine is not None else mean(own)
                step = Step(
                    gradient,
                    own[rank],
                    parts[rank] if len(parts[rank]) > 1 else (),
                    weights=self.weights[number],
                    targets=self.losses(rank, weight, reduction=reduction),
                    backwards=len(parts[rank]),
                    forwards=len(parts[rank]),
                )
                if change is not None:
                    change(step, rank, number)
                steps.append(step)
            self.add_rank(steps, **recorded)
        return self

    def refer(
        self,
        weight: Callable[[int], float],
        name: str = "union",
        *,
        noise: float = 1e-15,
        change: Callable[[Step, int], None] | None = None,
    ) -> World:
        """Write a reference. Its gradients are summed in another order, so that they differ by rounding."""
        random = np.random.default_rng(3)
        steps = []
        for number in range(self.steps):
            gradient = self.whole(number, weight)
            gradient = {
                key: value * (1 + noise * random.standard_normal(value.shape)) for key, value in gradient.items()
            }
            step = Step(
                gradient,
                weights=self.weights[number],
                targets=self.reference_losses(weight),
                backwards=len(self.counts[0]),
                forwards=len(self.counts[0]),
            )
            if change is not None:
                change(step, number)
            steps.append(step)
        folder = self.folder / name
        self.references[name] = Process(self.write(steps, folder, "reference", 0), folder)
        return self

    # -- writing

    def add_rank(self, steps: Sequence[Step], **recorded: Any) -> None:
        rank = len(self.ranks)
        folder = self.folder / f"rank-{rank}"
        chosen = {key: value[rank] if isinstance(value, PerRank) else value for key, value in recorded.items()}
        ending = chosen.pop("how", Ending("finished"))
        left_none = chosen.get("ending") == "none"
        written = None if left_none else self.write(steps, folder, "rank", rank, **chosen)
        self.ranks.append(Process(written, folder, ending))

    def write(self, steps: Sequence[Step], folder: Path, role: str, rank: int, **changes: Any) -> Recording:
        folder.mkdir(parents=True, exist_ok=True)
        windows = [self._window(number, step, folder) for number, step in enumerate(steps)]
        values: dict[str, Any] = {
            "role": role,
            "rank": rank,
            "world_size": self.world_size if role == "rank" else 1,
            "dtype": "float64",
            "ending": "stopped",
            "windows": windows,
            "collectives": [reduction(number, self.world_size) for number in range(len(steps))],
        }
        made = Recording(**{**values, **changes})
        recording.write(made, folder)
        found = recording.read(folder)
        assert found is not None
        return found

    def _window(self, number: int, step: Step, folder: Path) -> Window:
        tensors: Tensors = {}
        gradients, weights = [], []
        for name, value in step.gradient.items():
            start, stop = (round(bound * value.size) for bound in step.range)
            weight = (step.weights or {}).get(name, np.zeros(value.shape))
            weights.append(share(name, weight, start, stop, step.stride))
            if name in step.missing:
                continue
            gradients.append(share(name, value, start, stop, step.stride))
            thinned = slice(start, stop, step.stride)
            tensors[f"gradient/{name}"] = value.reshape(-1)[thinned].copy()
            if step.unclipped is not None:
                tensors[f"unclipped/{name}"] = step.unclipped[name].reshape(-1)[thinned].copy()
            if step.local is not None:
                tensors[f"local/{name}"] = step.local[name].reshape(-1)[thinned].copy()
            for micro, part in enumerate(step.micro):
                tensors[f"micro/{micro}/{name}"] = part[name].reshape(-1)[thinned].copy()
        losses = []
        for position, (loss, weighing) in enumerate(step.targets):
            losses.append(loss)
            if weighing is not None:
                tensors[f"target/{position}"] = weighing
        values: dict[str, Any] = {
            "index": number,
            "optimizer": 0,
            "optimizer_type": "SGD",
            "place": STEP,
            "gradients": gradients,
            "weights": weights,
            "buffers": {},
            "forwards": step.forwards,
            "backwards": step.backwards,
            "losses": losses,
            "local": step.local is not None,
            "forwarded": FORWARD,
        }
        save_file(tensors, tensors_file(folder, number))
        return Window(**{**values, **step.changes})

    # -- evidence

    def evidence(self, *, main: str | None = "union", failure: str = "", **settings: Any) -> Evidence:
        return Evidence(
            self.ranks,
            self.references,
            main=main if main in self.references else None,
            failure=failure,
            settings=dataclasses.replace(self.settings, **settings),
        )


class PerRank(list[Any]):
    """A value for each rank, in the place of one for all."""


def mean(parts: Sequence[Tensors]) -> Tensors:
    return plus(*(scaled(part, 1 / len(parts)) for part in parts))


def reduction(window: int, ranks: int = 2, **changes: Any) -> Collective:
    """The wrapper's reduction of the gradients."""
    values: dict[str, Any] = {
        "name": "all_reduce",
        "operation": "SUM",
        "shape": [39],
        "dtype": "float64",
        "group": list(range(ranks)),
        "by": "wrapper",
        "place": Place(SCRIPT, 42),
        "window": window,
        "bytes": 312,
    }
    return Collective(**{**values, **changes})


def script_collective(name: str, line: int, window: int = 0, **changes: Any) -> Collective:
    return reduction(
        window, **{"name": name, "operation": None, "shape": None, "dtype": None, "bytes": 0, "by": "script",
                   "place": Place(SCRIPT, line), **changes}
    )  # fmt: skip


def wrap(before: Mapping[str, Array], after: Mapping[str, Array], **changes: Any) -> Wrap:
    values: dict[str, Any] = {
        "kind": "ddp",
        "model": 0,
        "place": WRAP,
        "before": {name: digest(value) for name, value in before.items()},
        "after": {name: digest(value) for name, value in after.items()},
        "group": [0, 1],
    }
    return Wrap(**{**values, **changes})


def loader(**changes: Any) -> Loader:
    values: dict[str, Any] = {
        "place": LOADER,
        "dataset": "Sentences",
        "sampler": "DistributedSampler",
        "iterable": False,
        "length": 24,
        "batches": 3,
        "batch_size": 4,
        "passes": 1,
        "fingerprint": "24:aa,bb,cc",
        "remaining": [],
    }
    return Loader(**{**values, **changes})


def fetches(batches: Sequence[Sequence[int]], *, contents: str = "sample", windows: Sequence[int] | None = None,
            epoch: int = 0, number: int = 0) -> list[Fetch]:  # fmt: skip
    """Batches of indices; the content of a sample is named after its index."""
    return [
        Fetch(
            number,
            epoch,
            ordinal,
            (windows or range(len(batches)))[ordinal],
            list(batch),
            [f"{contents}-{index}" for index in batch],
            LOOP,
        )
        for ordinal, batch in enumerate(batches)
    ]
