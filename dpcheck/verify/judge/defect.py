"""What a judge finds wrong: a code of the catalogue, the line, and the figures that show it."""

from __future__ import annotations

import dataclasses
import pathlib

from dpcheck.rule import Group, Rule, Severity
from dpcheck.source.files import display
from dpcheck.verify.recording import Place
from dpcheck.verify.result import Remark

_ERROR, _WARNING, _NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE

RULES = {
    code: Rule(code, name, group, severity, "", pedantic=severity is _NOTE)
    for code, name, group, severity in (
        ("DP101", "unsynchronized-weights", Group.WEIGHTS, _ERROR),
        ("DP102", "rank-seeded-weights", Group.WEIGHTS, _ERROR),
        ("DP103", "weights-set-on-one-rank", Group.WEIGHTS, _ERROR),
        ("DP104", "parameters-changed-after-wrap", Group.WEIGHTS, _ERROR),
        ("DP105", "stale-optimizer-parameters", Group.WEIGHTS, _ERROR),
        ("DP106", "unsynchronized-state", Group.WEIGHTS, _WARNING),
        ("DP107", "unsynchronized-batchnorm", Group.WEIGHTS, _NOTE),
        ("DP201", "unsharded-loader", Group.DATA, _ERROR),
        ("DP202", "unsharded-stream", Group.DATA, _ERROR),
        ("DP203", "epoch-not-set", Group.DATA, _WARNING),
        ("DP204", "wrong-shard-rank", Group.DATA, _ERROR),
        ("DP205", "rank-seeded-sampler", Group.DATA, _ERROR),
        ("DP206", "rank-dependent-split", Group.DATA, _ERROR),
        ("DP207", "unordered-shard-source", Group.DATA, _WARNING),
        ("DP208", "same-draws-on-every-rank", Group.DATA, _ERROR),
        ("DP209", "same-noise-on-every-rank", Group.DATA, _NOTE),
        ("DP210", "uneven-shards", Group.DATA, _WARNING),
        ("DP301", "per-rank-mean", Group.OBJECTIVE, _ERROR),
        ("DP302", "local-count", Group.OBJECTIVE, _ERROR),
        ("DP303", "missing-world-size-factor", Group.OBJECTIVE, _WARNING),
        ("DP304", "extra-world-size-factor", Group.OBJECTIVE, _WARNING),
        ("DP305", "mean-of-micro-batch-means", Group.OBJECTIVE, _ERROR),
        ("DP306", "detached-collective-in-loss", Group.OBJECTIVE, _ERROR),
        ("DP307", "local-batch-loss", Group.OBJECTIVE, _NOTE),
        ("DP308", "wrong-reduction-group", Group.OBJECTIVE, _ERROR),
        ("DP401", "forward-bypasses-wrapper", Group.SYNC, _ERROR),
        ("DP402", "misplaced-no-sync", Group.SYNC, _ERROR),
        ("DP403", "clip-by-local-norm", Group.SYNC, _ERROR),
        ("DP404", "unreduced-parameters", Group.SYNC, _ERROR),
        ("DP501", "collective-on-some-ranks", Group.COLLECTIVES, _ERROR),
        ("DP502", "rank-dependent-exit", Group.COLLECTIVES, _ERROR),
        ("DP505", "ragged-gather", Group.COLLECTIVES, _ERROR),
        ("DP601", "local-metric-decision", Group.COUNTING, _ERROR),
    )
}
"""What a run can show, as the catalogue calls it. Named here too: a finding of a run needs no rule to be installed."""

NODES = "nodes"
"""The kind of note that tells that the ranks seemed to be spread over several machines."""


_MOST = 1e6  # a relative error that is larger says no more than that


@dataclasses.dataclass(frozen=True)
class Defect:
    """`alternatives` are codes that would have looked the same: a finding in the source may tell them apart.

    `exact`: the defect stands on this very line; else it is the nearest line that is known. A `remark` alone does not
    make the run a different one.
    """

    code: str
    message: str
    place: Place
    related: tuple[tuple[Place, str], ...] = ()
    help: str = ""
    evidence: tuple[str, ...] = ()
    alternatives: tuple[str, ...] = ()
    remark: bool = False
    sure: bool = True
    exact: bool = False


def tensor_name(name: str) -> str:
    """A tensor as its model's `named_parameters` calls it: recorded names begin with the number of the model."""
    number, _, own = name.partition(".")
    if not number.isdecimal():
        return name
    return own if number == "0" else f"{own} of model {int(number) + 1}"


def some(names: list[str], *, limit: int = 3, count: int | None = None) -> str:
    """The first few tensors by name, and how many more of the `count` there are."""
    more = (len(names) if count is None else count) - limit
    shown = ", ".join(map(tensor_name, names[:limit]))
    return shown if more <= 0 else f"{shown} and {more} more"


def ranks_named(ranks: list[int]) -> str:
    """`rank 1`, `ranks 0 and 2`, `ranks 0, 1 and 2`."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    return f"ranks {', '.join(map(str, ranks[:-1]))} and {ranks[-1]}"


def times(count: int, noun: str) -> str:
    """`1 step`, `3 steps`, `2 batches`."""
    return f"{count} {noun}{'' if count == 1 else 'es' if noun.endswith('ch') else 's'}"


def percent(share: float) -> str:
    """A relative error as a person reads it."""
    if share == 0:
        return "0"
    if share > _MOST:
        return "beyond all bounds"
    return f"{100 * share:.2g} %" if share >= 1e-4 else f"{share:.1e}"


def line_of(place: Place) -> tuple[str, int]:
    """A place as reports name it; ("", 0) where it is unknown."""
    return (display(pathlib.Path(place.path)), place.line) if place.path else ("", 0)


def shown(place: Place) -> str:
    """`train.py:41`."""
    path, line = line_of(place)
    return f"{path}:{line}" if path else "an unknown line"


def remark(kind: str, text: str, place: Place) -> Remark:
    path, line = line_of(place)
    return Remark(kind=kind, text=text, path=path, line=line)
