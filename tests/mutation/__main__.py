"""`python -m tests.mutation`: break the right programs in every way, and count what is found."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.mutation.programs import right
from tests.mutation.report import lines, share
from tests.mutation.running import NAMES, Outcome, counted, outcomes, verified

PAGE = Path(__file__).parent.parent.parent / "docs" / "mutation.md"


def spread(counts: Sequence[Mapping[str, int]], operators: Sequence[str], most: int) -> list[dict[str, list[int]]]:
    """The numbers of the mutants to take of each program: of each operator at most so many, spread over all."""
    chosen: list[dict[str, list[int]]] = [{} for _ in counts]
    for name in operators:
        all_ = [(place, number) for place, count in enumerate(counts) for number in range(count.get(name, 0))]
        size = min(most or len(all_), len(all_))
        for place, number in (all_[index * len(all_) // size] for index in range(size)):
            chosen[place].setdefault(name, []).append(number)
    return chosen


def sample(found: Sequence[Outcome], size: int) -> list[Outcome]:
    """Mutants of programs that verify calls equivalent: as many of each operator as of every other."""
    order = random.Random(0)
    chosen: dict[str, list[Outcome]] = {}
    for outcome in order.sample(found, len(found)):
        original = outcome.mutant.original
        if outcome.operator.options is not None and "# verify: equivalent" in original.files[original.entry]:
            chosen.setdefault(outcome.operator.name, []).append(outcome)
    rounds = max(map(len, chosen.values()), default=0)
    taken = [each[turn] for turn in range(rounds) for each in chosen.values() if turn < len(each)]
    return sorted(taken[:size], key=lambda outcome: list(NAMES).index(outcome.operator.name))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=NAMES, default=list(NAMES), metavar="OPERATOR")
    parser.add_argument("--program", default="", help="programs with this in their name")
    parser.add_argument("--most", type=int, default=25, metavar="N", help="mutants of each operator (0: all)")
    parser.add_argument("--verify", type=int, default=0, metavar="N", help="run dpcheck verify on so many mutants")
    parser.add_argument("--write", action="store_true", help="write docs/mutation.md")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    args = parser.parse_args()
    programs = [program for program in right() if args.program in program.name]
    # A worker lives for a few programs: what an execution leaves behind slows the next ones down.
    with multiprocessing.Pool(args.jobs, maxtasksperchild=4) as pool:
        counts = pool.map(counted, programs, chunksize=1)
        tasks = zip(programs, spread(counts, args.only, args.most), strict=True)
        found = [outcome for result in pool.starmap(outcomes, tasks, chunksize=1) for outcome in result]
    hits = sum(outcome.found for outcome in found)
    print(f"{hits} of {len(found)} mutants are found ({share(hits, len(found))})", flush=True)
    verdicts = {outcome: verified(outcome) for outcome in sample(found, args.verify)}
    text = "\n".join(lines(found, verdicts, args.most)) + "\n"
    if args.write:
        PAGE.write_text(text, "utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main()
