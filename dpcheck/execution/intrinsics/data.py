"""Data: datasets, samplers and loaders, what they hand to a rank, files, and whether counts are even."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpcheck.execution import divisions, expressions, placement, tensors
from dpcheck.execution.builtins import subscripts
from dpcheck.execution.facts import (
    CONSTANT,
    EVEN,
    EVEN_UNKNOWN,
    NOTHING,
    Difference,
    Even,
    Evidence,
    Facts,
    Site,
    Source,
    SourceKind,
    replace,
    uneven,
)
from dpcheck.execution.intrinsics.arguments import Arguments, Table
from dpcheck.execution.intrinsics.nested import each_datum
from dpcheck.execution.placement import SHARD
from dpcheck.execution.values import FALSE, TRUE, Const, Data, Instance, Sequence, Value, is_true, options, text_of

if TYPE_CHECKING:
    from dpcheck.execution.interpreter import Interpreter


def _is_iterable_dataset(it: Interpreter, a: Arguments, site: Site) -> Value:
    """Is the dataset one that is iterated (True), one that is indexed (False), or neither known (unknown)?"""
    answers = {_is_iterated(one) for one in options(a["dataset"])}
    answer = answers.pop() if len(answers) == 1 else None
    if answer is None:
        return Data(replace(NOTHING, type="bool"))
    return TRUE if answer else FALSE


def _is_iterated(dataset: Value) -> bool | None:
    if isinstance(dataset, Instance):
        if dataset.is_a("torch.utils.data.IterableDataset"):
            return True
        if dataset.cls.lookup("__getitem__") is not None:
            return False
        return True if dataset.cls.lookup("__iter__") is not None and not dataset.cls.is_opaque else None
    indexed = isinstance(dataset, Sequence) or (isinstance(dataset, Data) and dataset.facts.type == "tensor")
    return False if indexed else None


def _local_index(it: Interpreter, a: Arguments, site: Site) -> Value:
    """An index into the data that a sampler gives this rank alone (`sharded`) or any rank."""
    sources = [Source(SourceKind.COUNTER, site)]
    if is_true(a.get("sharded")):
        sources.append(Source(SourceKind.RANK, site))
    return Data(Facts(SHARD, type="int", lead=EVEN, rest=EVEN, total=EVEN, ndim=0, sources=frozenset(sources)), site)


def _sharded(it: Interpreter, a: Arguments, site: Site) -> Value:
    """A value (an index, an example) that a framework picked for this rank alone."""
    return _sourced(it, a["value"], Source(SourceKind.RANK, site), EVEN_UNKNOWN)


def _picked(it: Interpreter, a: Arguments, site: Site) -> Value:
    """An element of an iterable that is strided through: this rank's own where a bound or step depends on the rank."""
    item = a["item"]
    divisions.strided(it, a["iterable"], item, [a[name] for name in ("start", "stop", "step") if name in a], site)
    for name in ("start", "stop", "step"):
        if name in a:
            item = subscripts.placed_by(item, expressions.facts_of(it, a[name]))
    return item


def _many(it: Interpreter, a: Arguments, site: Site) -> Value:
    """A list of as many alike items as a batch holds; `even`: the same number on every rank (None: not known)."""
    even = a.get("even", TRUE)
    count = EVEN if is_true(even) else EVEN_UNKNOWN
    if isinstance(even, Data):
        count = even.facts.total
    return Sequence(None, "list", a["item"], _local_count(count), site)


def _from_loader(it: Interpreter, a: Arguments, site: Site) -> Value:
    """A batch, with the loader that it came from noted as its source: this rank's own, also where it was not read.

    `stacked`: the loader itself made the batch, with a row for each item.
    """
    source = Source(SourceKind.LOADER, site, a["loader"])
    return _sourced(it, a["batch"], source, EVEN if is_true(a.get("stacked")) else EVEN_UNKNOWN)


def _sourced(it: Interpreter, value: Value, source: Source, rows: Even) -> Value:
    """This rank's own data from that source. `rows`: is the number of rows even, of what was not read?"""

    def own(datum: Data) -> Data:
        facts = datum.facts
        lead = rows if facts.place.is_unknown and facts.type != "tensor" else facts.lead
        place = facts.place if facts.place.is_local else SHARD
        differs = (Difference(SourceKind.LOADER, source.site, source.of),)
        result = Data(
            replace(facts, place=place, lead=lead, sources=facts.sources | {source}, differs=differs), datum.site
        )
        result.identity = datum.identity
        return result

    return each_datum(it, value, own, depth=4)


def _unordered(it: Interpreter, a: Arguments, site: Site) -> Value:
    """A listing without a fixed order: `os.listdir`, `glob`."""
    source = Source(SourceKind.LISTING, site)
    element = Data(replace(CONSTANT, type="str", sources=frozenset((source,)), clean=False), site)
    return Sequence(None, "list", element, replace(CONSTANT, type="int", ndim=0), site)


def _worker(it: Interpreter, a: Arguments, site: Site) -> Value:
    source = Source(SourceKind.WORKER, site)
    return Data(replace(CONSTANT, type="int", ndim=0, sources=frozenset((source,))), site)


def _read_from(it: Interpreter, a: Arguments, site: Site) -> Value:
    """What is read from a file: the same on every rank where its path is. Where each rank has a file of its own, what
    is in them may still be alike, as the epoch of a checkpoint is.

    `clean`: numbers that are never negative. `even`: of one shape, whichever file it is.
    """
    facts = expressions.facts_of(it, a["source"])
    clean = is_true(a.get("clean"))
    shape = EVEN if is_true(a.get("even")) else EVEN_UNKNOWN
    unread = {"lead": shape, "rest": shape, "total": EVEN_UNKNOWN, "ndim": None, "clean": clean, "differs": ()}
    kind = text_of(a.get("type"))
    own = frozenset() if facts.place.is_replicate else frozenset((Source(SourceKind.FILE, site),))
    result = Data(replace(facts, type=kind, grad=False, terms=(), sources=facts.sources | own, **unread), site)
    if kind == "bool":
        result.identity = ("exists", getattr(a["source"], "identity", a["source"]))
    return result


def _uneven_count(it: Interpreter, a: Arguments, site: Site) -> Value:
    """A number that differs between ranks, because of what `why` says."""
    return Data(_local_count(uneven(Evidence(site, text_of(a.get("why"))))), site)


def _local_count(even: Even) -> Facts:
    """How many of something this rank has: is it `even` across the ranks?"""
    return Facts(placement.PARTIAL, type="int", total=even, lead=EVEN, rest=EVEN, ndim=0)


def _evenness(it: Interpreter, a: Arguments, site: Site) -> Value:
    """Is the number of elements of a value "even" across the ranks, "uneven", or "unknown"?"""
    value = a["value"]
    if isinstance(value, Sequence):
        return Const(tensors.length_even(value).state.value)
    facts = expressions.facts_of(it, value)
    return Const(facts.elements.state.value if facts.type == "tensor" else "unknown")


INTRINSICS: Table = {
    "many": (_many, ("item", "even")),
    "local_index": (_local_index, ("sharded",)),
    "from_loader": (_from_loader, ("loader", "batch", "stacked")),
    "uneven_count": (_uneven_count, ("why",)),
    "is_iterable_dataset": (_is_iterable_dataset, ("dataset",)),
    "picked": (_picked, ("item", "iterable", "start", "stop", "step")),
    "unordered": (_unordered, ()),
    "worker": (_worker, ()),
    "evenness": (_evenness, ("value",)),
    "sharded": (_sharded, ("value",)),
    "read_from": (_read_from, ("source", "type")),
}
