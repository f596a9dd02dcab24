"""What an operator is: one way to break a right program, and the codes that name the defect."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator

import libcst as cst

from tests.mutation.editing import Edits, Source
from tests.mutation.programs import Program

RANK = "torch.distributed.get_rank()"
WORLD = "torch.distributed.get_world_size()"
RANK_BEFORE_INIT = 'int(os.environ["RANK"])'


@dataclasses.dataclass(frozen=True)
class Change:
    """An edit of one file; `at` is the node to name in a list of what was missed."""

    source: Source
    at: cst.CSTNode
    edits: Edits


Apply = Callable[[Program], Iterator[Change]]


@dataclasses.dataclass(frozen=True)
class Operator:
    """`codes`: any of these rules finds it. `why`: why what it makes is a defect, whatever else the program does.

    `options`: with which `dpcheck verify` shows the defect; None where it cannot.
    """

    name: str
    codes: tuple[str, ...]
    why: str
    apply: Apply
    options: tuple[str, ...] | None


@dataclasses.dataclass(frozen=True, eq=False)
class Mutant:
    """`operator` is its name."""

    operator: str
    original: Program
    program: Program
    place: str


def mutants(operator: Operator, program: Program, numbers: Collection[int] | None = None) -> Iterator[Mutant]:
    """What the operator makes of the program; of it, if given, only what has these numbers."""
    for number, change in enumerate(operator.apply(program)):
        if numbers is None or number in numbers:
            place = f"{program.name}: {change.source.path}:{change.source.line(change.at)}"
            bare = dataclasses.replace(program)  # without its trees: mutants travel between processes
            yield Mutant(operator.name, bare, program.changed(change.source, change.edits), place)


def operator(*codes: str, why: str, options: tuple[str, ...] | None = ()) -> Callable[[Apply], Operator]:
    """Makes an operator of a function; its name is the function's."""

    def make(apply: Apply) -> Operator:
        return Operator(apply.__name__.replace("_", "-"), codes, why, apply, options)

    return make
