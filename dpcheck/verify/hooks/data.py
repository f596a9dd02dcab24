"""What the DataLoaders give: every batch before collation, by content and by index, and in the reference the union.

Batches are fetched in the process itself, its workers imitated one after the other.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import pickle
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import torch
from torch.utils.data import DataLoader, IterableDataset
from torch.utils.data import dataloader as torch_dataloader

from dpcheck.verify import content
from dpcheck.verify.hooks.workers import Worker
from dpcheck.verify.job import Job
from dpcheck.verify.randomness import random_state, same_random_state, seed_everything
from dpcheck.verify.recording import Fetch, Loader, Place
from dpcheck.verify.session import Session

SAMPLES = "samples.pickle"
_MANY = 200_000  # indices of an epoch that are compared between ranks
_HASHED_BATCHES = 64  # batches on their way from the loader to a forward


class LoaderFeed(Protocol):
    """Serves the reference: see dpcheck.verify.feed."""

    def batches(self, loader: Loader, number: int) -> int | None: ...

    def batch(self, loader: Loader, number: int, epoch: int, ordinal: int, collate: Callable[[Any], Any]) -> Any: ...


class Data:
    """The loaders of one process and what they gave."""

    def __init__(self, session: Session, feed: LoaderFeed | None) -> None:
        self._session = session
        self._feed = feed
        self._numbers: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._loaders: list[weakref.ref[Any]] = []
        self._last_iterator: dict[int, weakref.ref[Any]] = {}
        self._complete: dict[int, int] = {}  # passes that ran to their end, by loader
        self._trained_on: set[int] = set()
        self._storages: dict[int, tuple[int, weakref.ref[torch.Tensor]]] = {}
        self._digests: dict[str, int] = {}
        self._waiting: deque[int] = deque(maxlen=_HASHED_BATCHES)
        self._samples = (session.folder / SAMPLES).open("ab") if session.is_rank else None

    # -- loaders

    def number_of(self, loader: DataLoader[Any]) -> int:
        """The loader's place in the recording: loaders count in the order in which they are first iterated."""
        number = self._numbers.get(loader)
        if number is None:
            number = self._numbers[loader] = len(self._loaders)
            self._loaders.append(weakref.ref(loader))
            self._session.recording.loaders.append(self._describe(loader))
        return number

    def described(self, loader: DataLoader[Any]) -> tuple[int, Loader]:
        number = self.number_of(loader)
        return number, self._session.recording.loaders[number]

    def _describe(self, loader: Any) -> Loader:
        sampler = loader.batch_sampler if type(loader.batch_sampler).__module__ != "torch.utils.data.sampler" else None
        sampler = sampler if sampler is not None else loader.sampler
        iterable = isinstance(loader.dataset, IterableDataset)
        replacing = " with replacement" if getattr(sampler, "replacement", False) else ""
        return Loader(
            place=loader.__dict__.get("_dpcheck_place", Place()),
            dataset=type(loader.dataset).__name__,
            sampler="" if iterable else type(sampler).__name__ + replacing,
            iterable=iterable,
            length=None if iterable else _length(loader.dataset),
            batches=None if iterable else _length(loader),
            batch_size=loader.batch_size,
        )

    def passes(self) -> int:
        """How many passes over the data of the training have ended: those over the loader that saw fewest."""
        ended = [self._complete.get(number, 0) for number in self._trained_on]
        return min(ended, default=0)

    def pass_began(self, iterator: Any, loader: Any) -> tuple[int, int]:
        number, description = self.described(loader)
        epoch = description.passes
        description.passes += 1
        self._last_iterator[number] = weakref.ref(iterator)
        return number, epoch

    def pass_ended(self, number: int, epoch: int, batches: int) -> None:
        self._complete[number] = self._complete.get(number, 0) + 1
        self._session.recording.loaders[number].completed += 1
        self._session.recording.loaders[number].ended[epoch] = batches

    # -- batches

    def fetched(self, key: tuple[int, int, int], indices: Any, samples: Any, batch: Any, randomly: bool) -> None:
        """Record a batch. `samples` are those before collation, or the batch where the loader does not collate."""
        session = self._session
        place = session.here()
        session.event("data", place)
        fetches = session.recording.fetches
        fetch = Fetch(*key, session.window.index, _plain_indices(indices), None, place)
        number = len(fetches)
        fetches.append(fetch)
        collated = isinstance(samples, _Samples)
        with session.harmlessly(), torch.no_grad():
            try:
                fetch.samples = [content.digest(sample) for sample in samples.items] if collated else None
            except Exception as error:
                session.note("unreadable-samples", f"samples cannot be compared: {error}", place)
            self._keep(number, samples, batch if randomly or not collated else None)
            self._follow(number, batch)

    def _keep(self, number: int, samples: Any, batch: Any) -> None:
        """Hand samples, and a batch that is collated at random, on to the reference."""
        if self._samples is None or self._session.window.index > 4 * self._session.job.steps:
            if self._session.job.window != "last":
                return
        assert self._samples is not None
        items = samples.items if isinstance(samples, _Samples) else None
        try:
            data = content.dumps((items, batch))
        except Exception as error:
            self._session.note("unreadable-samples", f"samples cannot be handed to the reference: {error}")
            return
        self._samples.write(len(data).to_bytes(8, "little") + number.to_bytes(8, "little"))
        self._samples.write(data)
        self._samples.flush()

    def _follow(self, number: int, batch: Any) -> None:
        for tensor in content.leaves(batch):
            if tensor.numel() > 1 and tensor.layout == torch.strided:
                self._storages[tensor.untyped_storage().data_ptr()] = (number, weakref.ref(tensor))
                self._digests[content.digest(tensor)] = number
        self._waiting.append(number)

    def consumed_by(self, inputs: list[torch.Tensor]) -> list[int]:
        """The fetches that a forward with these inputs uses: told by storage, else by content, else by order."""
        inputs = [tensor for tensor in inputs if tensor.numel() > 1 and tensor.layout == torch.strided]
        found: list[int] = []
        for tensor in inputs:
            number, origin = self._storages.get(tensor.untyped_storage().data_ptr(), (-1, None))
            if origin is not None and origin() is not None and number not in found:
                found.append(number)
        if not found:
            known = (self._digests.get(content.digest(tensor)) for tensor in inputs)
            found = [number for number in known if number is not None][:1]
        if not found and self._waiting:
            found = [self._waiting[0]]
        for number in found:
            while self._waiting and self._waiting[0] <= number:
                self._waiting.popleft()
            self._trained_on.add(self._session.recording.fetches[number].loader)
        return found

    # -- at the end

    def look_ahead(self) -> None:
        """Digest fixed samples of each data set, and list what the samplers would still give in this pass."""
        for number, (reference, loader) in enumerate(zip(self._loaders, self._session.recording.loaders, strict=True)):
            found = reference()
            if found is None or loader.iterable:
                continue
            loader.fingerprint = _fingerprint(found.dataset, loader.length)
            iterator = self._last_iterator[number]() if number in self._last_iterator else None
            if iterator is not None and (loader.length or 0) <= _MANY:
                with contextlib.suppress(Exception):
                    loader.remaining = _remaining(iterator._sampler_iter)


class _Samples:
    """The samples of one batch; `items` is a list of them."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items


def _length(sized: Any) -> int | None:
    try:
        return len(sized)
    except Exception:
        return None


def _plain_indices(indices: Any) -> list[int | str] | None:
    if indices is None:
        return None
    listed = list(indices) if isinstance(indices, (list, tuple, torch.Tensor)) else [indices]
    plain: list[int | str] = []
    for index in listed:
        if index is None:
            return None
        try:
            plain.append(int(index))
        except (TypeError, ValueError):
            plain.append(repr(index)[:80])
    return plain


def _remaining(batches: Iterator[Any]) -> list[int]:
    left: list[int] = []
    for batch in batches:
        left += [int(index) for index in (batch if isinstance(batch, (list, tuple)) else [batch])]
        if len(left) > _MANY:
            break
    return left


def _fingerprint(dataset: Any, length: int | None) -> str | None:
    """A digest of the first, the middle and the last sample, drawn under one fixed seed."""
    if not length:
        return None
    try:
        digests = []
        for index in sorted({0, length // 2, length - 1}):
            seed_everything(1)
            digests.append(content.digest(dataset[index]))
        return f"{length}:" + ",".join(digests)
    except Exception:
        return None


# -- the loader's own machinery


class _Reader:
    """Beside each iterator of a loader: its workers, and which batch comes next."""

    def __init__(self, data: Data, session: Session, iterator: Any, loader: Any) -> None:
        self._data = data
        self._session = session
        self._iterator = iterator
        self.number, self.epoch = data.pass_began(iterator, loader)
        self.ordinal = 0
        count = loader.__dict__.get("_dpcheck_workers", 0)
        self._workers = [Worker(loader, number, count, iterator._base_seed) for number in range(count)]
        self._turn = 0

    def next(self) -> Any:
        """The next batch of a rank, or of a reference that is not fed at the loaders."""
        try:
            index = self._iterator._next_index()  # drawn by the process, not by a worker
            batch = self._from_workers(index) if self._workers else self._fetch(self._iterator._dataset_fetcher, index)
        except StopIteration:
            self._data.pass_ended(self.number, self.epoch, self.ordinal)
            raise
        self.ordinal += 1
        return batch

    def _from_workers(self, index: Any) -> Any:
        while self._workers:
            worker = self._workers[self._turn % len(self._workers)]
            try:
                with worker.at_work():
                    batch = self._fetch(worker.fetcher, index)
            except StopIteration:
                self._workers.remove(worker)  # its part of the stream has ended, not that of the others
                continue
            self._turn += 1
            return batch
        raise StopIteration

    def _fetch(self, fetcher: Any, index: Any) -> Any:
        session = self._session
        if session.is_rank and isinstance(index, list):
            index = index[: _share_of_batch(session.job, len(index))]
        if session.inside:
            return fetcher.fetch(index)
        taken: list[Any] = []
        randomly = False
        collate = fetcher.collate_fn

        def tapped(samples: Any) -> Any:
            nonlocal randomly
            # Collation may change the samples: keep them as they were.
            taken.append(_snapshot(samples) if session.is_rank else samples)
            before = random_state()
            batch = collate(samples)
            randomly = not same_random_state(before, random_state())
            return batch

        fetcher.collate_fn = tapped
        try:
            batch = fetcher.fetch(index)
        finally:
            fetcher.collate_fn = collate
        if session.is_rank:
            auto = fetcher.auto_collation and isinstance(taken[0], (list, tuple))
            samples = _Samples(list(taken[0])) if auto else taken[0]
            key = (self.number, self.epoch, self.ordinal)
            self._data.fetched(key, None if self._is_stream() else index, samples, batch, randomly)
        return batch

    def _is_stream(self) -> bool:
        kind: int = self._iterator._dataset_kind
        return kind == torch_dataloader._DatasetKind.Iterable


def _share_of_batch(job: Job, size: int) -> int:
    """How many samples of a batch of `size` this rank keeps: all of them, unless the ranks are to be made uneven."""
    if job.caps:
        return job.caps[job.rank % len(job.caps)]
    if job.uneven and job.rank == job.world_size - 1:
        return max(size // 2, 1)
    return size


def _snapshot(samples: Any) -> Any:
    try:
        return pickle.loads(content.dumps(samples))
    except Exception:
        return samples


def install(session: Session, feed: LoaderFeed | None) -> Data:
    data = Data(session, feed)
    loader_class: Any = DataLoader
    iterator_class: Any = torch_dataloader._SingleProcessDataLoaderIter
    construct, begin, length = loader_class.__init__, iterator_class.__init__, loader_class.__len__
    signature = inspect.signature(construct)

    @functools.wraps(construct)
    def initialize(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            bound = signature.bind(self, *args, **kwargs)
        except TypeError:
            construct(self, *args, **kwargs)  # raises the script's own error
            return
        options = dict(bound.arguments)
        options.pop("self")
        options |= options.pop("kwargs", {})
        workers = options.get("num_workers", 0)
        for name in _OF_WORKERS:
            options.pop(name, None)
        self.__dict__["_dpcheck_place"] = session.here()
        self.__dict__["_dpcheck_workers"] = workers if isinstance(workers, int) else 0
        self.__dict__["_dpcheck_worker_init"] = kwargs.get("worker_init_fn") or bound.arguments.get("worker_init_fn")
        construct(self, **options)

    @functools.wraps(begin)
    def begin_pass(self: Any, loader: Any) -> None:
        begin(self, loader)
        if not session.inside:
            self._dpcheck_reader = _Reader(data, session, self, loader)
            self._dpcheck_loader = loader

    @functools.wraps(iterator_class._next_data)
    def next_data(self: Any) -> Any:
        reader = getattr(self, "_dpcheck_reader", None)
        if reader is None:
            return original_next(self)
        if feed is None:
            return reader.next()
        number, description = data.described(self._dpcheck_loader)
        collate = self._dpcheck_loader.collate_fn
        try:
            batch = feed.batch(description, number, reader.epoch, reader.ordinal, collate)
        except StopIteration:
            data.pass_ended(number, reader.epoch, reader.ordinal)
            raise
        if batch is NOT_RECORDED:
            return reader.next()
        reader.ordinal += 1
        return batch

    original_next = iterator_class._next_data

    @functools.wraps(length)
    def fed_length(self: Any) -> int:
        if feed is not None and not session.inside and "_dpcheck_place" in self.__dict__:
            with session.looking_away():
                description = data._describe(self)
            batches = feed.batches(description, data._numbers.get(self, len(data._loaders)))
            if batches is not None:
                return batches
        measured: int = length(self)
        return measured

    loader_class.__init__, loader_class.__len__ = initialize, fed_length
    iterator_class.__init__, iterator_class._next_data = begin_pass, next_data
    return data


NOT_RECORDED = object()
_OF_WORKERS = (
    "num_workers", "prefetch_factor", "persistent_workers", "timeout", "multiprocessing_context", "worker_init_fn",
    "pin_memory", "pin_memory_device", "in_order",
)  # fmt: skip
