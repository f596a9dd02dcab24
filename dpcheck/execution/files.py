"""Files that a run writes and reads: whether two paths are one, and whether it is the same on every rank."""

from __future__ import annotations

from dpcheck.execution.facts import SourceKind
from dpcheck.execution.run import Event, Guard, TrainingRun
from dpcheck.execution.values import Const, Data, Instance, Value

_NO_PATHS = ("file", "binary file", "tensor", "int", "float", "bool", "number")
_OF_ONE_PROCESS = (SourceKind.RANK, SourceKind.LOCAL_RANK, SourceKind.TIME, SourceKind.DRAW, SourceKind.WORKER)


def text_of(path: Value | None) -> Const | Data | None:
    """The text of a path, if it is one and not an open file."""
    if isinstance(path, Instance):
        path = path.attrs.get("%facts")
    if isinstance(path, Const):
        return path if isinstance(path.value, str) and not path.value.startswith("/dev/") else None
    return path if isinstance(path, Data) and path.facts.type not in _NO_PATHS else None


def is_shared(path: Value | None) -> bool:
    """Is it beyond doubt the same path on every rank?"""
    text = text_of(path)
    if isinstance(text, Const):
        return True
    if text is None or text.facts.differs or not text.facts.place.is_replicate:
        return False
    return not any(text.facts.has(kind) for kind in _OF_ONE_PROCESS)


def same(a: Value | None, b: Value | None) -> bool:
    """Are these two paths one and the same?"""
    first, second = text_of(a), text_of(b)
    if isinstance(first, Const) or isinstance(second, Const):
        return isinstance(first, Const) and isinstance(second, Const) and bool(first.value == second.value)
    return first is not None and second is not None and bool(first.identity == second.identity)


def is_met_by_all(guard: Guard) -> bool:
    """Is the condition known to be answered alike by all ranks? One that asks for a file is not: one rank may have gone
    ahead and written it.
    """
    asks = isinstance(guard.test, Data) and _asks_for_a_file(guard.test.identity)
    return guard.facts.place.is_replicate and not guard.facts.differs and not asks


def _asks_for_a_file(identity: object) -> bool:
    if isinstance(identity, Data):
        return identity.identity is not identity and _asks_for_a_file(identity.identity)
    if not isinstance(identity, tuple) or not identity:
        return False
    return identity[0] == "exists" or any(_asks_for_a_file(part) for part in identity[1:])


def by_ranks(run: TrainingRun, event: Event) -> bool:
    """Does it happen in the processes of the ranks, not in one that starts them?"""
    launches = {launch.site for launch in run.of_kind("launch")}
    return not launches or not launches.isdisjoint(event.details.get("calls", ()))
