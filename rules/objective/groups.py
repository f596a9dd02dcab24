"""Which ranks a reduction spans: all of them, or a process group of some."""

from __future__ import annotations

from dpcheck.execution import TrainingRun
from dpcheck.execution.facts import Site
from dpcheck.execution.run import Update
from dpcheck.execution.values import Choice, Const, Instance, Sequence, Value

WORLD = "all ranks"
Members = frozenset[object]
"""The groups that a value may be: `WORLD`, and process groups of some ranks; several where a condition decides."""


def members(group: Value | None) -> Members | None:
    """The groups that a group argument may be; None when that is not known."""
    if group is None or (isinstance(group, Const) and group.value is None):
        return frozenset((WORLD,))
    if isinstance(group, Choice):
        options = [members(option) for option in group.options]
        known = [option for option in options if option is not None]
        return frozenset().union(*known) if len(known) == len(options) else None
    if not isinstance(group, Instance) or not isinstance(ranks := group.attrs.get("ranks"), Value):
        return None
    if _spans_all(ranks):
        return frozenset((WORLD,))
    # The loop that makes groups is gone through more than once: the place tells them apart, not the object.
    mesh = group.attrs.get("mesh")
    if isinstance(mesh, Instance):
        return frozenset(((mesh.site, ranks.value),)) if isinstance(ranks, Const) else None
    return frozenset((group.site,))


def _spans_all(ranks: Value) -> bool:
    """No list of ranks, or one as long as there are ranks."""
    if isinstance(ranks, Sequence):
        return ranks.length is not None and ranks.length.place.world == 1
    return isinstance(ranks, Const) and ranks.value is None


def reduced_over(run: TrainingRun, site: Site) -> Members | None:
    """The groups that the collective at this place works on."""
    return members(run.groups.get(site))


def of_gradients(run: TrainingRun, update: Update) -> Members | None:
    """The groups over which the gradients of an update are averaged; None when several are, or they are not known."""
    found = {members(event.group) for event in (*update.wraps, *update.reductions)}
    return found.pop() if len(found) == 1 else None
