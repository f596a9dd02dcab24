"""How much of the training in real repositories dpcheck sees: `python benchmarks/coverage.py FOLDER…`.

For each place where a model is wrapped for data parallelism, in all the runs that come to it: does one run hold the
wrapper, a backward of a loss that it can judge, the data that the loss was computed from and the step? Where none does,
the first link that is missing is counted, and what dpcheck knew nothing of in that run.
"""

from __future__ import annotations

import argparse
import collections
import pathlib

from dpcheck import check, config
from dpcheck.execution.facts import SourceKind
from dpcheck.execution.run import Event, TrainingRun, Update

LINKS = ("all of them", "optimizer step", "data", "loss", "backward")
"""What a run shows of a wrap, from the most to the least: the first link that is missing."""

DATA = (SourceKind.LOADER, SourceKind.DRAW, SourceKind.RANK, SourceKind.LISTING)


def missing(run: TrainingRun, wrap: Event) -> str:
    """The first link that is missing between a wrap and an optimizer step."""
    updates = [update for update in run.updates if wrap in update.wraps]
    return min((_missing(update) for update in updates), key=LINKS.index, default="backward")


def _missing(update: Update) -> str:
    judged = [each for each in update.judged() if not each.place.is_unknown]
    if not judged:
        return "loss"
    facts = [backward.facts for backward in update.backwards]
    if not any(each.has(kind) for each in facts for kind in DATA):
        return "data"
    return "optimizer step" if update.step.kind != "step" else "all of them"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=pathlib.Path, metavar="FOLDER")
    folders = parser.parse_args().folders
    shown: collections.Counter[str] = collections.Counter()
    reasons: collections.Counter[str] = collections.Counter()
    for folder in folders:
        best: dict[object, tuple[str, TrainingRun]] = {}
        settings = config.Settings(root=folder, cache=False)
        _, program = check.link([folder], settings)
        for run in check.runs(program, []):
            for wrap in run.of_kind("wrap"):
                link = missing(run, wrap)
                if wrap.site not in best or LINKS.index(link) < LINKS.index(best[wrap.site][0]):
                    best[wrap.site] = link, run
        for link, run in best.values():
            shown[link] += 1
            if link != LINKS[0]:
                reasons.update(run.unknowns.keys() or ["nothing unknown"])
        counts = collections.Counter(link for link, _ in best.values())
        print(f"{folder.name:45s} {counts[LINKS[0]]:3d} of {len(best):3d} wraps", flush=True)
    total = sum(shown.values())
    print(f"\n{shown[LINKS[0]]} of {total} wraps meet ({shown[LINKS[0]] / max(total, 1):.0%})")
    for link in LINKS[1:]:
        print(f"  {shown[link]:4d} lack: {link}")
    print("what is unknown most often where they do not meet, in runs:")
    for reason, times in reasons.most_common(8):
        print(f"  {times:4d} {reason}")


if __name__ == "__main__":
    main()
