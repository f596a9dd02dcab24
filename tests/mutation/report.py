"""The outcomes as the Markdown of docs/mutation.md."""

from __future__ import annotations

import collections
from collections.abc import Iterator, Mapping, Sequence

from tests.mutation.operators import OPERATORS
from tests.mutation.running import Outcome

VERDICTS = {0: "equivalent", 1: "shown", 2: "undecided"}
HEAD = """\
<!-- written by python -m tests.mutation --verify {sampled} --write -->

# Mutation recall

What dpcheck reports is measured on real repositories; what it misses has to be made. Here the right programs in
`fixtures/`, in which nothing is reported, are broken in every way that the catalogue knows, one edit of the syntax tree
at a time. An operator applies only where its edit must be a defect, whatever else the program does. A mutant is found
when `dpcheck check` reports one of the operator's codes in it. Where an operator makes many mutants, {most} of them
are taken, spread over the programs.

**{found} of {all} mutants are found ({share}).** The programs are our own, small, and those that the rules were written
with: read the share as what the rules do where dpcheck can follow the program, and the list of what is missed as where
it cannot.
"""


def share(found: int, of: int) -> str:
    return f"{100 * found / of:.1f} %" if of else "-"


def lines(outcomes: Sequence[Outcome], verified: Mapping[Outcome, int], most: int) -> Iterator[str]:
    found = sum(outcome.found for outcome in outcomes)
    all_ = len(outcomes)
    yield HEAD.format(found=found, all=all_, share=share(found, all_), sampled=len(verified), most=most)
    yield "| operator | why it is a defect | found as | mutants | found | |"
    yield "|---|---|---|---|---|---|"
    for operator in OPERATORS:
        of = [outcome for outcome in outcomes if outcome.operator is operator]
        if of:
            hits = sum(outcome.found for outcome in of)
            codes = ", ".join(operator.codes)
            yield f"| {operator.name} | {operator.why} | {codes} | {len(of)} | {hits} | {share(hits, len(of))} |"
    if verified:
        yield from shown(verified)
    yield "\n## Missed\n"
    missed = collections.defaultdict(list)
    for outcome in outcomes:
        if not outcome.found:
            others = f" (reported: {', '.join(sorted(outcome.reported))})" if outcome.reported else ""
            missed[outcome.operator.name].append(f"{outcome.mutant.place}{others}")
    for name, places in missed.items():
        yield f"- {name}: {'; '.join(places)}"


def shown(verified: Mapping[Outcome, int]) -> Iterator[str]:
    """What verify says of a sample."""
    hits = sum(code == 1 for code in verified.values())
    yield "\n## Verified\n"
    yield f"`dpcheck verify` shows {hits} of {len(verified)} sampled mutants ({share(hits, len(verified))}). The sample"
    yield "leaves out the operators whose defect two CPU ranks cannot show: files, schedules, what depends on a race.\n"
    yield "| operator | program | verdict |"
    yield "|---|---|---|"
    for outcome, code in verified.items():
        yield f"| {outcome.operator.name} | {outcome.mutant.place} | {VERDICTS.get(code, code)} |"
