"""Ranks: this process's number, how many there are, the launcher's variables, the group, and how it is started."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpcheck.execution import calls
from dpcheck.execution.builtins import iteration
from dpcheck.execution.facts import CONSTANT, EVEN, Difference, Facts, Site, Source, SourceKind, replace
from dpcheck.execution.intrinsics.arguments import Arguments, Intrinsic, Table, entries_of
from dpcheck.execution.placement import REPLICATE, WORLD_SIZE, Kind, Placement
from dpcheck.execution.values import FALSE, NONE, TRUE, Const, Data, Value, is_false, options, text_of

if TYPE_CHECKING:
    from dpcheck.execution.interpreter import Interpreter


def _scalar(place: Placement, source: Source | None, identity: object) -> Data:
    facts = Facts(
        place,
        type="int",
        lead=EVEN,
        rest=EVEN,
        total=EVEN,
        ndim=0,
        sources=frozenset((source,)) if source is not None else frozenset(),
        differs=(Difference(source.kind, source.site),) if source is not None and place.is_local else (),
    )
    value = Data(facts)
    value.identity = identity
    return value


def rank(it: Interpreter, a: Arguments, site: Site) -> Value:
    return _scalar(Placement(Kind.LOCAL), Source(SourceKind.RANK, site), "rank")


def local_rank(it: Interpreter, a: Arguments, site: Site) -> Value:
    return _scalar(Placement(Kind.LOCAL), Source(SourceKind.LOCAL_RANK, site), "local rank")


def world_size(it: Interpreter, a: Arguments, site: Site) -> Value:
    return _scalar(WORLD_SIZE, None, "world size")


def _device_count(it: Interpreter, a: Arguments, site: Site) -> Value:
    return _scalar(REPLICATE, Source(SourceKind.DEVICE_COUNT, site), "device count")


_LAUNCHED: dict[str, Intrinsic] = {
    "RANK": rank,
    "LOCAL_RANK": local_rank,
    "WORLD_SIZE": world_size,
    "LOCAL_WORLD_SIZE": _device_count,
}
"""The variables that torchrun sets to numbers."""
_OTHERS = ("SLURM_", "OMPI_", "PMI_", "MV2_", "JSM_", "KUBERNETES", "AZ_", "XLA_", "TPU_", "COLAB", "SM_")
"""Variables that begin so are of other launchers and of machines that the run is taken not to be on."""


def _environment(it: Interpreter, a: Arguments, site: Site) -> Value:
    """An environment variable: the launcher's are set in a data-parallel run, others may be."""
    name, default = a["name"], a.get("default")
    if not isinstance(name, Const):
        return Data(replace(CONSTANT, type="str"))
    key = str(name.value)
    if key in _LAUNCHED:
        it.machine.setdefault("launched", site)
        return _LAUNCHED[key](it, a, site)
    if key in ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID"):
        return Data(replace(CONSTANT, type="str"))
    if key.startswith(_OTHERS):
        return default if default is not None else NONE
    source = Source(SourceKind.OPTION, site)
    value = Data(replace(CONSTANT, type="str" if default is None else "", sources=frozenset((source,))), site, default)
    value.identity = ("environment", key)
    return value


def _in_environment(it: Interpreter, a: Arguments, site: Site) -> Value:
    name = text_of(a["name"])
    if name in _LAUNCHED or name in ("MASTER_ADDR", "MASTER_PORT"):
        return TRUE
    if name.startswith(_OTHERS):
        return FALSE
    value = Data(replace(CONSTANT, type="bool"))
    value.identity = ("in environment", name)
    return value


def _start_group(it: Interpreter, a: Arguments, site: Site) -> Value:
    """`init_process_group`: the rank and world size handed in are the rank and the world size."""
    for name, maker in (("rank", rank), ("world_size", world_size)):
        for one in options(a.get(name)):
            if isinstance(one, Data) and one.identity not in ("rank", "world size"):
                it.unified[one] = maker(it, {}, site)
    it.record("group", site, None, backend=a.get("backend"), world_size=a.get("world_size", NONE))
    it.trail.set(it.machine, "group", True)
    return NONE


def _group_started(it: Interpreter, a: Arguments, site: Site) -> Value:
    if it.machine.get("group") or not it.run.starts_group:
        return TRUE
    if not it.machine.get("unread"):
        return FALSE
    started = Data(replace(CONSTANT, type="bool"), site)  # by code that was not read, perhaps
    started.identity = "group started"
    return started


def _new_group(it: Interpreter, a: Arguments, site: Site) -> Value:
    it.record("new group", site, a.get("group"), ranks=a.get("ranks", NONE))
    return NONE


def _launch(it: Interpreter, a: Arguments, site: Site) -> Value:
    """Start `function` in one process a rank: its first argument is the rank; the number of processes is W.

    With `ranked` False (multiprocessing.Process in a loop) the arguments are as they stand.
    """
    function, processes = a["function"], a.get("processes")
    world = world_size(it, {}, site)
    args: list[Value] = []
    for value in iteration.exact_items(a.get("args", NONE)) or []:
        same = processes is not None and _same_number(value, processes)
        args.append(world if same else value)
    if isinstance(processes, Data):
        it.unified[processes] = world
    it.record("launch", site, function, processes=a.get("processes", NONE))
    number = rank(it, {}, site)
    if is_false(a.get("ranked", TRUE)):
        args = [number if isinstance(v, Data) and v.facts.has(SourceKind.COUNTER) else v for v in args]
        return calls.apart(it, function, args, entries_of(a.get("kwargs")), site)
    return calls.apart(it, function, [number, *args], {}, site)


def _same_number(a: Value, b: Value) -> bool:
    """Are these the same number, not only equal ones?"""
    if a is b:
        return True
    if isinstance(a, Const) and isinstance(b, Const):
        return a.value == b.value and a.site is not None and a.site == b.site
    return isinstance(a, Data) and isinstance(b, Data) and a.identity is b.identity


INTRINSICS: Table = {
    "rank": (rank, ()),
    "local_rank": (local_rank, ()),
    "world_size": (world_size, ()),
    "device_count": (_device_count, ()),
    "environment": (_environment, ("name", "default")),
    "in_environment": (_in_environment, ("name",)),
    "start_group": (_start_group, ("backend", "rank", "world_size")),
    "group_started": (_group_started, ()),
    "new_group": (_new_group, ("group", "ranks")),
    "launch": (_launch, ("function", "args", "processes")),
    "local_option": (local_rank, ()),
}
