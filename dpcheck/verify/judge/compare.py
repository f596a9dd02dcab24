"""Gradients as vectors: how far two are apart, and which combination of some gives another.

Tensors may be thinned; each is multiplied by the square root of the factor it was thinned by, so that norms and
products estimate those of the whole tensors. Every explanation of a gradient is linear, so it holds on the elements
that were kept exactly when it holds for all.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]
Tensors: TypeAlias = dict[str, Array]

_SMALLEST = 1e-300


@dataclasses.dataclass(frozen=True)
class Tolerance:
    """Up to `doubt` a difference is rounding, above `relative` it is none; between the two it is not decided.

    A tensor fails apart when it is off by more than `relative` times (its norm + `floor` times the root mean square of
    the tensors' norms): a gradient that is zero by construction is all rounding. A coarse tolerance judges no single
    tensor.
    """

    relative: float
    doubt: float
    floor: float = 1e-3
    coarse: bool = False


FLOAT64 = Tolerance(relative=1e-8, doubt=1e-10)
FLOAT32 = Tolerance(relative=1e-5, doubt=1e-5, coarse=True)


def tolerance_for(dtype: str) -> Tolerance:
    return FLOAT64 if dtype == "float64" else FLOAT32


class Space:
    """The coordinates that a window's gradients are compared over: named tensors, one after the other."""

    def __init__(self, sizes: Mapping[str, int], thinning: Mapping[str, float]) -> None:
        self.names = tuple(sizes)
        self._sizes = np.array([sizes[name] for name in self.names], dtype=np.int64)
        self._starts = np.concatenate([[0], np.cumsum(self._sizes)]).astype(np.int64)
        self._scales = np.sqrt(np.array([thinning.get(name, 1.0) for name in self.names], dtype=np.float64))

    @property
    def size(self) -> int:
        return int(self._starts[-1])

    def vector(self, tensors: Mapping[str, Array]) -> Array:
        """The tensors as one vector; one that is missing is zero."""
        vector = np.zeros(self.size)
        for name, start, stop, scale in zip(self.names, self._starts[:-1], self._starts[1:], self._scales, strict=True):
            found = tensors.get(name)
            if found is not None:
                vector[start:stop] = found if scale == 1 else found * scale
        return vector

    def norms(self, vector: Array) -> Array:
        """The norm of each tensor in the vector."""
        squares = vector * vector
        sums = [float(squares[start:stop].sum()) for start, stop in itertools.pairwise(self._starts)]
        return np.sqrt(np.array(sums, dtype=np.float64))

    def part(self, vector: Array, name: str) -> Array:
        position = self.names.index(name)
        return vector[self._starts[position] : self._starts[position + 1]]


@dataclasses.dataclass(frozen=True)
class TensorDifference:
    name: str
    relative: float  # of the tensor's own norm, the floor added
    norm: float
    failed: bool


@dataclasses.dataclass(frozen=True)
class Difference:
    """`relative` is ‖a − r‖ / ‖r‖. `tensors` go from the worst on. `zero`: both vectors are exactly zero."""

    relative: float
    norm: float
    zero: bool
    tensors: list[TensorDifference]
    failed: bool
    doubtful: bool

    @property
    def failing(self) -> list[TensorDifference]:
        return [tensor for tensor in self.tensors if tensor.failed]


def difference(space: Space, actual: Array, reference: Array, tolerance: Tolerance) -> Difference:
    """How far `actual` is from `reference`, at all and tensor by tensor."""
    apart = space.norms(actual - reference)
    norms = space.norms(reference)
    total, norm = _length(apart), _length(norms)
    relative = total / norm if norm > 0 else (0.0 if total == 0 else float("inf"))
    floor = tolerance.floor * norm / max(len(norms), 1) ** 0.5
    bounds = norms + max(floor, _SMALLEST)
    ratios = apart / bounds
    tensors = [
        TensorDifference(
            space.names[place],
            float(ratios[place]),
            float(norms[place]),
            not tolerance.coarse and not ratios[place] <= tolerance.relative,
        )
        for place in np.argsort(-ratios, kind="stable")
    ]
    worst = tensors[0].relative if tensors and not tolerance.coarse else 0.0
    failed = not relative <= tolerance.relative or any(tensor.failed for tensor in tensors)
    return Difference(
        relative,
        norm,
        norm == 0 and total == 0,
        tensors,
        failed,
        not failed and max(relative, worst) > tolerance.doubt,
    )


def relative_error(actual: Array, reference: Array) -> float:
    norm, apart = _length(reference), _length(actual - reference)
    return apart / norm if norm > 0 else (0.0 if apart == 0 else float("inf"))


def factor(actual: Array, reference: Array) -> tuple[float, float] | None:
    """The k that brings k · reference nearest to `actual`, and what share of that remains. None where one is zero."""
    square, length = float(reference @ reference), _length(actual)
    if square == 0 or length == 0:
        return None
    k = float(actual @ reference) / square
    return k, _length(actual - k * reference) / length


@dataclasses.dataclass(frozen=True)
class Fit:
    """Factors of some vectors whose sum comes nearest to another, and the share of it that remains.

    `unique`: no other factors do as well, the vectors being independent.
    """

    factors: list[float]
    residual: float
    unique: bool


def fit(columns: Sequence[Array], target: Array) -> Fit | None:
    """Solved by QR: the normal equations would lose half of the digits."""
    length = _length(target)
    if not columns or length == 0:
        return None
    matrix = np.column_stack(columns)
    norms = np.sqrt((matrix * matrix).sum(axis=0))
    if not np.all(np.isfinite(norms)) or not np.all(norms > 0):
        return None
    orthogonal, triangle = np.linalg.qr(matrix / norms)
    diagonal = np.abs(np.diag(triangle))
    unique = bool(diagonal.min() > 1e-7)
    projected = orthogonal.T @ target
    if unique:
        solution = np.linalg.solve(triangle, projected)
    else:
        solution = np.linalg.lstsq(triangle, projected, rcond=1e-7)[0]
    factors = solution / norms
    return Fit([float(each) for each in factors], _length(target - matrix @ factors) / length, unique)


def same_bits(one: Mapping[str, Array], other: Mapping[str, Array]) -> bool:
    """Whether the tensors are equal to the last bit; -0 equals 0."""
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


def combined(tensors: Sequence[Mapping[str, Array]], factors: Sequence[float]) -> Tensors:
    """Σ factor · tensors; a missing tensor is zero."""
    names = dict.fromkeys(name for each in tensors for name in each)
    result: Tensors = {}
    for name in names:
        parts = [each[name] * share for each, share in zip(tensors, factors, strict=True) if name in each]
        result[name] = np.sum(parts, axis=0) if len(parts) > 1 else parts[0]
    return result


def finite(tensors: Mapping[str, Array]) -> bool:
    return all(bool(np.isfinite(tensor).all()) for tensor in tensors.values())


def _length(vector: Array) -> float:
    return float(np.linalg.norm(vector))
