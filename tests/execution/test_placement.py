"""The algebra of placements against numbers: expressions are computed on simulated ranks, exactly, in fractions."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

import hypothesis
import pytest
from hypothesis import strategies as st

from dpcheck.execution import placement
from dpcheck.execution.placement import PARTIAL, REPLICATE, SHARD, WORLD_SIZE, Placement
from dpcheck.execution.run import Judged
from tests.execution.programs import execute

ROWS = 3
WORLDS = (1, 2, 3, 5)
MANY = 40
COLLECTIVES = ("all_reduce_sum", "all_reduce_mean", "gather")


class ShapesDifferError(Exception):
    """The expression is none that torch would compute."""


class Rows(NamedTuple):
    """A value with an entry for each row that a rank holds, every row standing `times` over.

    `common`: the rows are no rank's own, since they were added up, entry by entry, or gathered.
    """

    entries: tuple[Fraction, ...]
    times: int = 1
    common: str = ""


Number = Fraction | Rows


class Expression(NamedTuple):
    operation: str
    parts: tuple[Expression, ...] = ()
    constant: Fraction = Fraction(1)

    def __str__(self) -> str:
        if not self.parts:
            return str(self.constant) if self.operation == "constant" else self.operation
        inner = [str(part) for part in self.parts]
        if len(inner) == 2:
            return f"({inner[0]} {self.operation} {inner[1]})"
        return f"{self.operation}({inner[0]})"


Draw = Callable[[int, str], Fraction]
"""A rank's number of that name."""


class Ranks:
    """`world` ranks that compute an expression. `times`: how often each stands of the rows that rank 0 holds.

    Where the rows of rank 0 are multiplied, what is reduced over the ranks stays as in `held`: that is what `size`
    speaks of.
    """

    def __init__(self, world: int, draw: Draw, times: int = 1, held: dict[str, Number] | None = None) -> None:
        self.world = world
        self.draw = draw
        self.times = times
        self.held = held or {}
        self.reduced: dict[str, Number] = {}

    def compute(self, expression: Expression, path: str = "") -> list[Number]:
        operation = expression.operation
        if path in self.held:
            return [self.held[path]] * self.world
        if not expression.parts:
            return [self.leaf(expression, rank, path) for rank in range(self.world)]
        first, *rest = [self.compute(part, f"{path}{i}") for i, part in enumerate(expression.parts)]
        if rest:
            return [combine(operation, a, b) for a, b in zip(first, rest[0], strict=True)]
        if operation in COLLECTIVES:
            self.reduced[path] = collective(operation, first)
            return [self.reduced[path]] * self.world
        return [total(value) if operation == "sum" else mean(value) for value in first]

    def leaf(self, expression: Expression, rank: int, path: str) -> Number:
        times = self.times if rank == 0 else 1
        if expression.operation == "batch":
            return Rows(tuple(self.draw(rank, f"{path} {row}") for row in range(ROWS)), times)
        if expression.operation == "count":
            return self.draw(rank, path) * times
        return Fraction(self.world) if expression.operation == "world" else expression.constant


def combine(operation: str, a: Number, b: Number) -> Number:
    if isinstance(a, Rows) or isinstance(b, Rows):
        rows = [value for value in (a, b) if isinstance(value, Rows)]
        xs, ys = (v.entries if isinstance(v, Rows) else (v,) * len(rows[0].entries) for v in (a, b))
        kinds = {value.common for value in rows}
        if ("gathered" in kinds and len(kinds) > 1) or len(xs) != len(ys):
            raise ShapesDifferError
        entries = [combine(operation, x, y) for x, y in zip(xs, ys, strict=True)]
        own = next((value for value in rows if not value.common), rows[0])
        return Rows(tuple(entry for entry in entries if isinstance(entry, Fraction)), own.times, own.common)
    return a + b if operation == "+" else a * b if operation == "*" else a / b


def collective(operation: str, values: list[Number]) -> Number:
    if operation == "gather":
        return Rows(tuple(entry for value in values for entry in entries(value)), 1, "gathered")
    made = values[0]
    for other in values[1:]:
        made = combine("+", made, other)
    if operation == "all_reduce_mean":
        made = combine("/", made, Fraction(len(values)))
    return made._replace(times=1, common=made.common or "added") if isinstance(made, Rows) else made


def total(value: Number) -> Fraction:
    return sum(value.entries, Fraction(0)) * value.times if isinstance(value, Rows) else value


def mean(value: Number) -> Fraction:
    return sum(value.entries, Fraction(0)) / len(value.entries) if isinstance(value, Rows) else value


def entries(value: Number) -> tuple[Fraction, ...]:
    return value.entries if isinstance(value, Rows) else (value,)


def each_its_own(seed: int) -> Draw:
    return lambda rank, name: Fraction(random.Random(f"{seed} {rank} {name}").randint(1, 10**6), 997)


def all_alike(seed: int) -> Draw:
    own = each_its_own(seed)
    return lambda rank, name: own(0, name)


def claim(expression: Expression) -> Placement:
    """What the algebra says of an expression."""
    leaves = {"batch": SHARD, "count": PARTIAL, "constant": REPLICATE, "world": WORLD_SIZE}
    if not expression.parts:
        return leaves[expression.operation]
    table: dict[str, Callable[..., Placement]] = {
        "+": placement.add,
        "*": placement.multiply,
        "/": placement.divide,
        "sum": placement.total,
        "mean": placement.mean,
        "all_reduce_sum": placement.all_reduce_sum,
        "all_reduce_mean": placement.all_reduce_mean,
        "gather": placement.gather,
    }
    return table[expression.operation](*[claim(part) for part in expression.parts])


LEAVES = st.one_of(
    st.sampled_from([Expression("batch"), Expression("count"), Expression("world")]),
    st.sampled_from([Fraction(2), Fraction(1, 3), Fraction(10**-6)]).map(lambda c: Expression("constant", (), c)),
)


def grown(parts: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    unary = st.sampled_from(["sum", "mean", *COLLECTIVES])
    binary = st.sampled_from(["+", "*", "/"])
    return st.one_of(
        st.builds(lambda operation, part: Expression(operation, (part,)), unary, parts),
        st.builds(lambda operation, a, b: Expression(operation, (a, b)), binary, parts, parts),
    )


EXPRESSIONS = st.recursive(LEAVES, grown, max_leaves=8)


@hypothesis.settings(max_examples=400, deadline=None)
@hypothesis.given(EXPRESSIONS, st.integers(0, 10**6))
def test_the_algebra_holds_in_numbers(expression: Expression, seed: int) -> None:
    claimed = claim(expression)
    hypothesis.assume(not claimed.is_unknown)
    try:
        Ranks(2, all_alike(seed)).compute(expression)
    except ShapesDifferError:
        hypothesis.reject()
    # On ranks that all hold the same a value shows its power of W.
    alone = Ranks(1, all_alike(seed)).compute(expression)[0]
    for world in WORLDS:
        together = Ranks(world, all_alike(seed)).compute(expression)[0]
        grown = [x / y for x, y in zip(entries(together), entries(alone), strict=False)]
        assert grown == [Fraction(world) ** claimed.world] * len(grown)
    # On ranks that hold different things it shows whether it is replicated, and how it grows with what one rank holds.
    ranks = Ranks(3, each_its_own(seed))
    values = ranks.compute(expression)
    assert len(set(values)) == (1 if claimed.is_replicate else 3)
    first = values[0]
    assert (isinstance(first, Rows) and first.common != "added") == claimed.spread
    if claimed.is_local:
        assert power(expression, seed, ranks.reduced) == claimed.size


def power(expression: Expression, seed: int, held: dict[str, Number]) -> int:
    """How a value on rank 0 grows with its amount of data, in the limit: constants stand beside what does."""
    some, more = (
        min(entries(Ranks(3, each_its_own(seed), 2**doublings, held).compute(expression)[0]))
        for doublings in (MANY, 2 * MANY)
    )
    return round((math.log2(more) - math.log2(some)) / MANY)


# ---------------------------------------------------------------- whole scripts


@dataclasses.dataclass(frozen=True)
class Rank:
    """What one rank holds: the gradient of the sum of its losses, and its numbers of targets and of rows."""

    gradient: tuple[Fraction, ...]
    count: Fraction
    rows: Fraction

    def many(self, times: int) -> Rank:
        return Rank(tuple(x * times for x in self.gradient), self.count * times, self.rows * times)


def ranks_of(world: int, draw: Draw) -> list[Rank]:
    return [
        Rank((draw(rank, "x"), draw(rank, "y")), Fraction(math.ceil(draw(rank, "count"))), Fraction(10**6))
        for rank in range(world)
    ]


Factor = Callable[[dict[str, Fraction]], Fraction]
START = {
    # how a term begins: the local count that is in it from there on, and whether autograd sees an all-reduce in it
    "losses.sum()": ("", False),
    "losses[mask].sum()": ("", False),
    "torch.where(mask, losses, 0.0).sum()": ("", False),
    "(losses * mask).sum()": ("", False),
    "losses[mask].mean()": ("count", False),
    "cross_entropy(logits, labels)": ("count", False),
    "losses.mean()": ("rows", False),
    "autograd.all_reduce(losses.sum())": ("", True),
}
LOCAL: dict[str, Factor] = {
    "* {local}": lambda n: n["local"],
    "/ {local}": lambda n: 1 / n["local"],
    "/ float({local})": lambda n: 1 / n["local"],
    "/ max({local}, 1)": lambda n: 1 / n["local"],
}
GLOBAL: dict[str, Factor] = {
    "* world": lambda n: n["world"],
    "/ world": lambda n: 1 / n["world"],
    "* dist.get_world_size()": lambda n: n["world"],
    "* 3.0": lambda n: Fraction(3),
    "/ 2": lambda n: Fraction(1, 2),
    "/ total": lambda n: 1 / n["total"],
    "/ total.item()": lambda n: 1 / n["total"],
    "/ total.clamp(min=1)": lambda n: 1 / n["total"],
    "/ (total + 1e-6)": lambda n: 1 / n["total"],
    "/ (total / world)": lambda n: n["world"] / n["total"],
    "* (world / total)": lambda n: n["world"] / n["total"],
    "/ average": lambda n: n["world"] / n["total"],
    "/ sum(parts)": lambda n: 1 / n["total"],
    "/ torch.stack(parts).sum()": lambda n: 1 / n["total"],
    "/ torch.stack(parts).float().mean()": lambda n: n["world"] / n["total"],
    "/ gathered.sum()": lambda n: 1 / n["total"],
    "/ autograd.all_reduce(count)": lambda n: 1 / n["total"],
    "* (dist.get_world_size() / all_reduced(count))": lambda n: n["world"] / n["total"],
    "/ all_rows": lambda n: 1 / n["all_rows"],
}


class Summand(NamedTuple):
    """A term of a loss. `local` is the local count that its factors use."""

    start: str
    factors: tuple[str, ...]
    local: str

    def __str__(self) -> str:
        return " ".join([self.start, *[factor.format(local=self.local) for factor in self.factors]])

    @property
    def sizes(self) -> list[int]:
        """How often the local amount of data is in it, after each factor."""
        found = [0 if START[self.start][0] else 1]
        for factor in self.factors:
            found.append(found[-1] + (0 if factor not in LOCAL else 1 if factor.startswith("*") else -1))
        return found

    def shares(self, ranks: list[Rank], everywhere: list[Rank]) -> list[tuple[Fraction, ...]]:
        """Each rank's gradient of this term; what is reduced over the ranks is taken from `everywhere`."""
        factors = [math.prod([self.factor(name, rank, everywhere) for name in self.factors]) for rank in ranks]
        inner, reduced = START[self.start]
        if reduced:  # its backward adds up what all ranks' losses say of the sum
            factors = [sum(factors, Fraction(0))] * len(ranks)
        return [
            tuple(x * factor / (getattr(rank, inner) if inner else 1) for x in rank.gradient)
            for rank, factor in zip(ranks, factors, strict=True)
        ]

    def factor(self, name: str, rank: Rank, everywhere: list[Rank]) -> Fraction:
        numbers = {
            "world": Fraction(len(everywhere)),
            "total": sum((each.count for each in everywhere), Fraction(0)),
            "all_rows": sum((each.rows for each in everywhere), Fraction(0)),
            "local": getattr(rank, self.local),
        }
        return {**LOCAL, **GLOBAL}[name](numbers)


def summands() -> st.SearchStrategy[Summand]:
    return st.builds(
        lambda start, factors, local: Summand(start, tuple(factors), START[start][0] or local),
        st.sampled_from(sorted(START)),
        st.lists(st.sampled_from(sorted({*LOCAL, *GLOBAL})), max_size=4),
        st.sampled_from(["count", "rows"]),
    ).filter(is_of_interest)


def is_of_interest(term: Summand) -> bool:
    """A sum or a mean all the way, and not a product of sums that nobody means."""
    return set(term.sizes) <= {0, 1} and not (START[term.start][1] and len(set(term.sizes)) > 1)


REDUCTIONS = {
    # how the gradients come together: the model, what follows backward, and whether that averages
    "wrapper": ("DistributedDataParallel(net)", "", True),
    "sum": ("net", "for p in net.parameters(): dist.all_reduce(p.grad)", False),
    "mean": ("net", "for p in net.parameters(): dist.all_reduce(p.grad); p.grad /= world", True),
    "average": ("net", "for p in net.parameters(): dist.all_reduce(p.grad, op=dist.ReduceOp.AVG)", True),
}
SCRIPT = """
import torch
import torch.distributed as dist
import torch.distributed.nn.functional as autograd
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


class Tokens(Dataset):
    def __init__(self):
        self.tokens = torch.randint(0, 50, (1000, 17))

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, index):
        labels = self.tokens[index].clone()
        labels[: int(labels[0])] = -100
        return self.tokens[index], labels


def all_reduced(tensor):
    tensor = tensor.detach().clone()
    dist.all_reduce(tensor)
    return tensor


dist.init_process_group("gloo")
world = dist.get_world_size()
data = Tokens()
loader = DataLoader(data, batch_size=8, sampler=DistributedSampler(data), drop_last=True)
net = torch.nn.Embedding(50, 50)
model = MODEL
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for tokens, labels in loader:
    logits = model(tokens)
    losses = cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none")
    mask = labels.flatten() != -100
    count = mask.sum()
    rows = losses.shape[0]
    total = count.clone()
    dist.all_reduce(total)
    average = count.float()
    dist.all_reduce(average, op=dist.ReduceOp.AVG)
    all_rows = torch.tensor(rows)
    dist.all_reduce(all_rows)
    parts = [torch.zeros_like(count) for _ in range(world)]
    dist.all_gather(parts, count)
    gathered = torch.zeros(world)
    dist.all_gather_into_tensor(gathered, count)
"""


@hypothesis.settings(max_examples=25, deadline=None)
@hypothesis.given(
    st.lists(st.lists(summands(), min_size=1, max_size=2), min_size=6, max_size=6),
    st.sampled_from(sorted(REDUCTIONS)),
    st.integers(0, 10**6),
)
def test_scripts_are_judged_as_their_numbers_say(
    tmp_path_factory: pytest.TempPathFactory, losses: list[list[Summand]], reduction: str, seed: int
) -> None:
    model, after, averaged = REDUCTIONS[reduction]
    text = SCRIPT.replace("MODEL", model)
    for loss in losses:
        text += f"    ({' + '.join(str(term) for term in loss)}).backward()\n    {after}\n    optimizer.step()\n"
    run = execute(tmp_path_factory.mktemp("script"), text)
    assert run.complete
    assert len(run.updates) == len(losses)
    for loss, update in zip(losses, run.updates, strict=True):
        claimed = {claim_of(judged) for judged in update.judged()}
        assert claimed == {expected(term, seed, averaged=averaged) for term in loss}, [str(term) for term in loss]


def claim_of(judged: Judged) -> tuple[int | None, str]:
    """The power of W in the update, and whether all targets weigh alike in it."""
    if judged.place.is_partial or judged.place.is_replicate:
        return judged.world, "exact"
    assert judged.place.is_ratio
    kind = "count" if judged.term.explicit else "mean"
    return judged.world, f"{judged.term.even.state.value} {kind}"


def expected(term: Summand, seed: int, *, averaged: bool) -> tuple[int, str]:
    """The same from numbers."""

    def update(ranks: list[Rank]) -> list[Fraction]:
        columns = zip(*term.shares(ranks, ranks), strict=True)
        return [sum(column, Fraction(0)) / (len(ranks) if averaged else 1) for column in columns]

    alone, together = (update(ranks_of(world, all_alike(seed))) for world in (1, 4))
    world = round(math.log(together[0] / alone[0], 4))
    assert together == [x * Fraction(4) ** world for x in alone]

    ranks = ranks_of(3, each_its_own(seed))
    x, y = update(ranks)
    in_one_process = [sum(column, Fraction(0)) for column in zip(*[rank.gradient for rank in ranks], strict=True)]
    exact = x * in_one_process[1] == y * in_one_process[0]
    some, more = (term.shares([ranks[0].many(times), *ranks[1:]], ranks)[0] for times in (1, 2))
    if some != more:  # more examples on this rank weigh more
        assert exact
        return world, "exact"
    kind = "count" if len(set(term.sizes)) > 1 else "mean"
    return world, f"{'even' if exact else 'uneven'} {kind}"
