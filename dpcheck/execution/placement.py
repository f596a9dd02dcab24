"""How a value is placed across the ranks, and how it scales with their number W.

A value is *replicated* (the same on every rank) or *local* (each rank has its own). A local value is still *spread*
(one entry per local example: a Shard), or it has been reduced; `size` then counts how often the local amount of data
enters as a factor. A replicated value is spread where it was gathered: it has an entry for each example of all ranks.

======================= ===== ======= =========================
value                   size  spread  name
======================= ===== ======= =========================
a batch, its losses       0    yes    Shard
a local sum, a count     +1    no     Partial
a local mean              0    no     Ratio
1 / a local count        -1    no     Inverse
======================= ===== ======= =========================

`world` is the exponent of W by which the value exceeds what the same expression gives in one process that holds one
rank's share: a sum over the ranks adds 1, a multiplication by the world size adds 1, a division by it subtracts 1. The
loss of a rank that DDP averages is right where `world` is 0; see `dpcheck.execution.run` for the judgement.

The rules are checked against numbers from simulated ranks in `tests/execution/test_placement.py`.
"""

from __future__ import annotations

import dataclasses
import enum


class Kind(enum.Enum):
    REPLICATE = "Replicate"
    LOCAL = "Local"
    UNKNOWN = "Unknown"


@dataclasses.dataclass(frozen=True, slots=True)
class Placement:
    kind: Kind
    size: int = 0
    world: int = 0
    spread: bool = False

    @property
    def is_replicate(self) -> bool:
        return self.kind is Kind.REPLICATE

    @property
    def is_local(self) -> bool:
        return self.kind is Kind.LOCAL

    @property
    def is_unknown(self) -> bool:
        return self.kind is Kind.UNKNOWN

    @property
    def is_partial(self) -> bool:
        return self.kind is Kind.LOCAL and not self.spread and self.size == 1

    @property
    def is_ratio(self) -> bool:
        return self.kind is Kind.LOCAL and not self.spread and self.size == 0

    def __str__(self) -> str:
        if self.kind is Kind.LOCAL:
            names = {1: "Partial", 0: "Ratio", -1: "Inverse"}
            name = "Shard" if self.spread else names.get(self.size, f"Local^{self.size}")
        else:
            name = self.kind.value
        return name if not self.world else f"{name}·W^{self.world}"


REPLICATE = Placement(Kind.REPLICATE)
WORLD_SIZE = Placement(Kind.REPLICATE, world=1)
SHARD = Placement(Kind.LOCAL, spread=True)
PARTIAL = Placement(Kind.LOCAL, size=1)
RATIO = Placement(Kind.LOCAL)
UNKNOWN = Placement(Kind.UNKNOWN)


def multiply(a: Placement, b: Placement) -> Placement:
    """The placement of `a * b`."""
    return _combine(a, b, 1)


def divide(a: Placement, b: Placement) -> Placement:
    """The placement of `a / b`."""
    return _combine(a, b, -1)


def _combine(a: Placement, b: Placement, sign: int) -> Placement:
    if a.is_unknown or b.is_unknown:
        return UNKNOWN
    if _outnumbers(a, b) or _outnumbers(b, a):
        return UNKNOWN
    kind = Kind.REPLICATE if a.is_replicate and b.is_replicate else Kind.LOCAL
    return Placement(kind, a.size + sign * b.size, a.world + sign * b.world, a.spread or b.spread)


def add(a: Placement, b: Placement) -> Placement:
    """The placement of `a + b`: known where both scale alike.

    A replicated addend changes nothing about how a local value varies between the ranks (`count + epsilon`), so the
    local one's placement stands where their scales agree, unless it shrinks with the amount of data.
    """
    if a.is_unknown or b.is_unknown or a.world != b.world or _outnumbers(a, b) or _outnumbers(b, a):
        return UNKNOWN
    if a.is_replicate or b.is_replicate:
        other = b if a.is_replicate else a
        if other.is_replicate:
            return dataclasses.replace(a, spread=a.spread or b.spread)
        return other if other.size >= 0 else UNKNOWN
    if a == b:
        return a
    if a.size == b.size:
        return dataclasses.replace(a, spread=a.spread or b.spread)
    return UNKNOWN


def _outnumbers(a: Placement, b: Placement) -> bool:
    """Does `a` have an entry for every example of all ranks where `b` has one number of this rank's own?"""
    return a.is_replicate and a.spread and b.is_local and not b.spread


def total(a: Placement) -> Placement:
    """The placement of the sum over all elements that this rank holds."""
    if not a.spread:
        return a
    if a.is_local:
        return Placement(Kind.LOCAL, a.size + 1, a.world)
    return Placement(Kind.REPLICATE, world=a.world + 1)  # gathered: W ranks' share of addends


def mean(a: Placement) -> Placement:
    """The placement of the mean over all elements that this rank holds."""
    return dataclasses.replace(a, spread=False)


def all_reduce_sum(a: Placement) -> Placement:
    """The placement of the sum over the ranks. W equal addends make W times one of them."""
    return UNKNOWN if a.is_unknown else Placement(Kind.REPLICATE, 0, a.world + 1, a.is_replicate and a.spread)


def all_reduce_mean(a: Placement) -> Placement:
    """The placement of the mean (or the maximum, minimum, rank 0's copy) over the ranks."""
    return UNKNOWN if a.is_unknown else Placement(Kind.REPLICATE, 0, a.world, a.is_replicate and a.spread)


def gather(a: Placement) -> Placement:
    """The placement of all ranks' values in one tensor: replicated, and still with an entry for each example."""
    if a.is_unknown or (a.is_replicate and a.spread):
        return UNKNOWN  # what is gathered twice has W entries for each example
    return Placement(Kind.REPLICATE, world=a.world, spread=True)


def join(a: Placement, b: Placement) -> Placement:
    """The placement of a value that is `a` on one path and `b` on another."""
    return a if a == b else UNKNOWN
