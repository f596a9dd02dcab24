"""What would mend a defect, and whether it did when it was tried: the ranks run again, the change made in memory."""

from __future__ import annotations

import time
from collections.abc import Callable

from dpcheck.verify.job import Mend
from dpcheck.verify.result import Counterfactual, Report

_MENDED = 1e-6  # what may remain of what was measured

Rerun = Callable[[Mend, bool], Report | None]
"""Runs the ranks again with a mend, on the same batches and weights if told so, and judges them."""

_MENDS: dict[str, tuple[Mend, str]] = {
    "DP301": ("global-count", "each loss divided by the targets of all ranks"),
    "DP302": ("global-count", "each loss divided by the targets of all ranks"),
    "DP305": ("global-count", "each loss divided by the targets of all ranks and micro-batches"),
    "DP303": ("times-world-size", "the loss multiplied by the number of ranks"),
    "DP304": ("by-world-size", "the loss divided by the number of ranks"),
    "DP104": ("average-gradients", "the gradients averaged over the ranks before the step"),
    "DP401": ("average-gradients", "the gradients averaged over the ranks before the step"),
    "DP402": ("average-gradients", "the gradients averaged over the ranks before the step"),
    "DP404": ("average-gradients", "the gradients averaged over the ranks before the step"),
    "DP101": ("broadcast-weights", "rank 0's weights broadcast before the first forward"),
    "DP102": ("broadcast-weights", "rank 0's weights broadcast before the first forward"),
    "DP201": ("shard-data", "a DistributedSampler in every loader without one"),
}
_OF_GRADIENTS = frozenset({"global-count", "times-world-size", "by-world-size", "average-gradients"})


def counterfactual(report: Report, rerun: Rerun) -> Counterfactual | None:
    """Try the mend of the first finding that has one; None where there is none, or where it did not mend."""
    found = next((_MENDS[finding.code] for finding in report.findings if finding.code in _MENDS), None)
    if found is None:
        return None
    mend, change = found
    started = time.monotonic()
    again = rerun(mend, mend in _OF_GRADIENTS)
    if again is None:
        return None
    before, after = _measure(mend, report), _measure(mend, again)
    if before is None or after is None or after > before * _MENDED:
        return None  # this was not it, or not all of it
    what = _MEASURED.get(mend, "relative error of the gradients")
    return Counterfactual(change=change, measured=what, before=before, after=after, seconds=time.monotonic() - started)


_MEASURED: dict[Mend, str] = {
    "broadcast-weights": "tensors that differ between the ranks",
    "shard-data": "samples that several ranks saw",
}


def _measure(mend: Mend, report: Report) -> float | None:
    if mend == "broadcast-weights":
        return float(report.weights.differing) if report.weights.after_steps != "unknown" else None
    if mend == "shard-data":
        return float(report.data.overlap) if report.data.disjoint is not None else None
    return report.objective.relative_error
