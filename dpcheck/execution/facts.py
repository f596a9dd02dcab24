"""What is known of a value that is not known exactly: its placement, its counts, its random states, its loss terms."""

from __future__ import annotations

import dataclasses
import enum
import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

from dpcheck.execution import placement
from dpcheck.execution.placement import REPLICATE, UNKNOWN, Placement

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dpcheck.execution.values import Value


class Site(NamedTuple):
    """A record of the program: the file (as it is shown) and the record's number in it, 0 for the file itself."""

    path: str
    at: int


class Evidence(NamedTuple):
    """Why something holds: the place that shows it and a few words for the report. Not `sure`: one step is inferred."""

    site: Site
    text: str
    sure: bool = True


class State(enum.Enum):
    EVEN = "even"
    UNEVEN = "uneven"
    UNKNOWN = "unknown"


@dataclasses.dataclass(frozen=True, slots=True)
class Even:
    """Whether a count is the same on every rank. Only evidence makes it uneven; absence of proof makes it unknown."""

    state: State
    evidence: tuple[Evidence, ...] = ()

    @property
    def is_even(self) -> bool:
        return self.state is State.EVEN

    @property
    def is_uneven(self) -> bool:
        return self.state is State.UNEVEN


EVEN = Even(State.EVEN)
EVEN_UNKNOWN = Even(State.UNKNOWN)
_MOST_EVIDENCE = 3


def uneven(*evidence: Evidence) -> Even:
    return Even(State.UNEVEN, evidence[:_MOST_EVIDENCE])


def both(a: Even, b: Even) -> Even:
    """The evenness of a product of two counts."""
    if a is b:
        return a
    if a.is_uneven or b.is_uneven:
        merged = tuple(dict.fromkeys(a.evidence + b.evidence)) if a.is_uneven and b.is_uneven else None
        return uneven(*(merged if merged is not None else (a if a.is_uneven else b).evidence))
    return a if not a.is_even else b


def same_count(a: Even, b: Even) -> Even:
    """The evenness of one count of which two things are known (the shapes of two operands that must agree)."""
    for one in (a, b):
        if one.is_uneven:
            return one
    return a if a.is_even else b


def join_even(a: Even, b: Even) -> Even:
    return a if a.state is b.state else EVEN_UNKNOWN


class SourceKind(enum.Enum):
    RANK = "rank"
    LOCAL_RANK = "local rank"
    DEVICE_COUNT = "device count"
    WORKER = "loader worker"
    LOADER = "loader"
    DRAW = "draw"
    MODULE = "module"
    COUNTER = "counter"
    OPTION = "option"
    LISTING = "listing"
    FILE = "file of one rank"
    TIME = "time"
    STATE = "state"
    PARAMETER = "parameter"
    UNREAD = "unread call"


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Source:
    """Something that a value was computed from; compared by identity. `of` is the loader, module, random state, what
    was written into the state of an object …

    `loops` are those inside which a draw happened. `serial` counts sources as they are made: sets of them, and what is
    told first, come out in one order in every run.
    """

    kind: SourceKind
    site: Site | None = None
    of: Any = None
    loops: tuple[Any, ...] = ()
    serial: int = dataclasses.field(default_factory=itertools.count().__next__, repr=False)

    def __hash__(self) -> int:
        return self.serial


class Difference(NamedTuple):
    """What makes a value another one on each rank: the rank's number (`RANK`, `LOCAL_RANK`), the examples that it was
    given (`LOADER`, with the loader in `of`, if there is one), a clock or a draw.
    """

    kind: SourceKind
    site: Site | None
    of: Any = None

    @property
    def is_rank(self) -> bool:
        return self.kind in (SourceKind.RANK, SourceKind.LOCAL_RANK)


_MOST_DIFFERENCES = 4


def differences(operands: Iterable[Facts]) -> tuple[Difference, ...]:
    """What makes a value differ between ranks that is computed from these."""
    found = dict.fromkeys(difference for operand in operands for difference in operand.differs)
    return tuple(found)[:_MOST_DIFFERENCES]


def leads(operands: Iterable[Facts]) -> tuple[Difference, ...]:
    """Whose examples one rank had computed a value from before it was broadcast, for a value computed from these."""
    return tuple(dict.fromkeys(led for operand in operands for led in operand.led))[:_MOST_DIFFERENCES]


class Scaling(NamedTuple):
    """One factor of a loss term: a power of W, a constant, or a count over all ranks, reduced at `reduced`."""

    site: Site
    world: int
    reduced: Site | None
    divides: bool
    value: Value | None
    summed: Even


@dataclasses.dataclass(frozen=True, slots=True)
class Term:
    """One addend of a loss.

    `even` speaks of the count that the term was divided by, if it was. `reduction` is where the per-target losses
    became one number; `explicit` says that it was a written division by a count, found at `count`. `counted`: a
    count over all ranks divides it. `unsure`: a factor that is not known, but not made from data either (a setting),
    scales it, so that nothing is said of its scale.
    """

    place: Placement
    even: Even = EVEN_UNKNOWN
    reduction: Site | None = None
    explicit: bool = False
    count: Evidence | None = None
    scalings: tuple[Scaling, ...] = ()
    counted: bool = False
    detached: Cut | None = None
    unsure: bool = False


class Cut(NamedTuple):
    """A collective that keeps gradients from the other ranks: a plain one, which autograd does not see, or one whose
    `written` backward hands on this rank's own part of the gradient alone."""

    site: Site
    written: bool = False


class Coupling(NamedTuple):
    """Where the examples of this rank's batch met each other, and the loss that was made of it so far."""

    site: Site
    loss: Site


class Mean(NamedTuple):
    """Where a number was divided by a count that differs from rank to rank and from batch to batch. `added`: such
    means have been added up since.
    """

    site: Site
    count: Even  # type: ignore[assignment]  # not the method of tuples
    added: bool = False


class Modulus(NamedTuple):
    """What a counter is divided by where its remainder is taken."""

    place: Placement
    value: Value


_NO_SOURCES: frozenset[Source] = frozenset()


@dataclasses.dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a value.

    `lead` and `rest`: is the first dimension (the number of rows) the same on every rank, and the rest of the shape?
    `total`: is the sum over the elements that this rank holds the same on every rank (for masks and counts)?
    `reduced`: where a collective made it the same on all ranks, and `summed`: was it so even before?
    `ignored`: constants that were written in as "no target here". `terms`: the addends of a loss, `()` for a value
    that carries no gradient. `parts`: the facts of the elements of a small stacked tensor. `detached`: the
    collective that a part of it went through without gradient. `coupled`: where the examples of this rank's batch met
    each other, `axis` the dimension that counts them. `modulus`: what a counter was divided by, for
    the remainder and what is tested of it. `opaque`: a function that was not read had what carries gradient in hand,
    and may have exchanged it between the ranks. `differs`: why the value is known to differ between the ranks; nothing
    is said of one that has none. `mean`: the number is a mean, and other ranks and batches have one of other weight.
    `led`: the examples of one rank that a broadcast value was computed from.
    """

    place: Placement = UNKNOWN
    type: str = ""
    ndim: int | None = None
    lead: Even = EVEN_UNKNOWN
    rest: Even = EVEN_UNKNOWN
    total: Even = EVEN_UNKNOWN
    ignored: tuple[tuple[Any, Evidence], ...] = ()
    sources: frozenset[Source] = _NO_SOURCES
    grad: bool = False
    terms: tuple[Term, ...] = ()
    parts: tuple[Facts, ...] | None = None
    reduced: Site | None = None
    summed: Even = EVEN_UNKNOWN
    modulus: Modulus | None = None
    permutation: bool = False
    mask: bool = False
    clean: bool = False
    gradient_of: tuple[Any, ...] = ()
    gradient_ops: tuple[Any, ...] = ()
    parameter_of: tuple[Any, ...] = ()
    opaque: bool = False
    detached: Cut | None = None
    coupled: Coupling | None = None
    axis: int = 0
    differs: tuple[Difference, ...] = ()
    mean: Mean | None = None
    led: tuple[Difference, ...] = ()

    def has(self, kind: SourceKind) -> bool:
        return any(source.kind is kind for source in self.sources)

    def of_kind(self, kind: SourceKind) -> list[Source]:
        found = [source for source in self.sources if source.kind is kind]
        return sorted(found, key=lambda source: source.serial) if len(found) > 1 else found

    @property
    def by_number(self) -> bool:
        """Does the value depend on which rank this is, not only on what the rank was given?"""
        return any(difference.is_rank for difference in self.differs)

    @property
    def elements(self) -> Even:
        """Is the number of elements the same on every rank?"""
        return both(self.lead, self.rest)


CONSTANT = Facts(REPLICATE, lead=EVEN, rest=EVEN, total=EVEN, clean=True)
NOTHING = Facts()
INTEGER = dataclasses.replace(CONSTANT, type="int", ndim=0)
"""A whole number that is the same on every rank."""


def scale(term: Term, by: Facts, value: Value | None, site: Site, divides: bool) -> Term:
    """A loss term times (or divided by) something that carries no gradient."""
    if by.place.is_unknown and not term.place.is_unknown and not _made_from_data(by):
        return dataclasses.replace(term, unsure=True)
    combine = placement.divide if divides else placement.multiply
    place = combine(term.place, by.place)
    even, reduction, explicit, count = term.even, term.reduction, term.explicit, term.count
    if by.place.is_local and by.place.size and not by.place.spread:
        if place.size == 0 and divides and not term.place.is_unknown:
            even, reduction, explicit = by.total, site, True
            origin = getattr(value, "site", None) or site
            count = Evidence(origin, "this rank's own count")
        elif place.size != 0:
            even, explicit = EVEN_UNKNOWN, False
    scalings = term.scalings
    made = getattr(value, "site", None)
    if not divides and by.place.world < 0 and made is not None:
        site = made  # the factor is a quotient: the division stands where it was made
    if by.place.is_replicate and len(scalings) < 8:
        world = -by.place.world if divides else by.place.world
        scalings = (*scalings, Scaling(site, world, by.reduced, divides, value, by.summed))
    counted = term.counted or (by.place.is_replicate and by.reduced is not None)
    if divides and term.place.is_replicate and by.place.is_replicate and by.place.world > 0:
        counted = True  # the same loss on every rank, divided by what grows with their number
    return Term(place, even, reduction, explicit, count, scalings, counted, term.detached, term.unsure)


def _made_from_data(facts: Facts) -> bool:
    """May the value depend on what this rank loads, draws or computes?"""
    kinds = (SourceKind.LOADER, SourceKind.DRAW, SourceKind.MODULE, SourceKind.RANK, SourceKind.LOCAL_RANK)
    return facts.type == "tensor" or facts.reduced is not None or any(facts.has(kind) for kind in kinds)


def replace(facts: Facts, **changes: Any) -> Facts:
    return dataclasses.replace(facts, **changes)


def cut(facts: Facts) -> tuple[Term, ...]:
    """The terms, with the collective that keeps gradient from them."""
    if facts.detached is None:
        return facts.terms
    return tuple(
        term if term.detached is not None else dataclasses.replace(term, detached=facts.detached)
        for term in facts.terms
    )


def without_gradient(facts: Facts) -> Facts:
    """The same numbers where autograd has been told to stop, or cannot go on (an index, a count, a test)."""
    return dataclasses.replace(facts, grad=False, terms=(), detached=None, coupled=None)


def join(a: Facts, b: Facts) -> Facts:
    """What is known of a value that is `a` on one path and `b` on another."""
    if a is b or a == b:
        return a
    return Facts(
        place=placement.join(a.place, b.place),
        type=a.type if a.type == b.type else "",
        ndim=a.ndim if a.ndim == b.ndim else None,
        lead=join_even(a.lead, b.lead),
        rest=join_even(a.rest, b.rest),
        total=join_even(a.total, b.total),
        ignored=tuple(dict(a.ignored + b.ignored).items()),
        sources=a.sources | b.sources,
        grad=a.grad or b.grad,
        terms=tuple(dict.fromkeys(a.terms + b.terms)),
        parts=tuple(join(x, y) for x, y in zip(a.parts, b.parts, strict=True))
        if a.parts and b.parts and len(a.parts) == len(b.parts)
        else None,
        reduced=a.reduced or b.reduced,
        summed=join_even(a.summed, b.summed),
        modulus=a.modulus or b.modulus,
        permutation=a.permutation and b.permutation,
        mask=a.mask and b.mask,
        clean=a.clean and b.clean,
        gradient_of=tuple(dict.fromkeys(a.gradient_of + b.gradient_of)),
        gradient_ops=a.gradient_ops if a.gradient_ops == b.gradient_ops else (),
        parameter_of=tuple(dict.fromkeys(a.parameter_of + b.parameter_of)),
        opaque=a.opaque or b.opaque,
        detached=a.detached or b.detached,
        coupled=a.coupled or b.coupled,
        axis=a.axis if a.axis == b.axis else 0,
        differs=_joined_differences(a, b),
        mean=a.mean or b.mean,
        led=leads((a, b)),
    )


def _joined_differences(a: Facts, b: Facts) -> tuple[Difference, ...]:
    """Why a value differs that is `a` on one path and `b` on another: one is enough, unless the other may have been
    made the same on purpose, or by code that was not read.
    """
    if not a.differs and not b.differs:
        return ()
    for one in (a, b):
        if not one.differs and (one.reduced is not None or not one.place.is_replicate):
            return ()
    return differences((a, b))
