"""A loader's worker processes, imitated inside the process itself.

Which samples a rank sees may depend on its workers: each has its own copy of an iterable data set, its own
`get_worker_info()` and its own random state, as torch would start them.
"""

from __future__ import annotations

import contextlib
import copy
import sys
from collections.abc import Iterator
from typing import Any

from torch.utils.data import IterableDataset
from torch.utils.data import dataloader as torch_dataloader
from torch.utils.data._utils import worker as torch_worker

from dpcheck.verify.randomness import random_state, seed_everything, set_random_state


class Worker:
    """One worker of a loader: its fetcher and its random state."""

    def __init__(self, loader: Any, number: int, count: int, base_seed: int) -> None:
        dataset = loader.dataset
        if isinstance(dataset, IterableDataset):
            with contextlib.suppress(Exception):
                dataset = copy.copy(dataset)
        self._info = _worker_info(number, count, base_seed + number, dataset)
        outside = random_state()
        _seed_as_worker(base_seed, number)
        try:
            with self._as_worker():
                initialize = loader.__dict__.get("_dpcheck_worker_init")
                if initialize is not None:
                    initialize(number)
                create: Any = torch_dataloader._DatasetKind.create_fetcher
                self.fetcher = create(
                    loader._dataset_kind,
                    self._info.dataset,
                    loader._auto_collation,
                    loader.collate_fn,
                    loader.drop_last,
                )
        finally:
            self._inside = random_state()
            set_random_state(outside)

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        outside = random_state()
        set_random_state(self._inside)
        try:
            with self._as_worker():
                yield
        finally:
            self._inside = random_state()
            set_random_state(outside)

    @contextlib.contextmanager
    def _as_worker(self) -> Iterator[None]:
        module: Any = torch_worker
        before = module._worker_info
        module._worker_info = self._info
        try:
            yield
        finally:
            module._worker_info = before


def _seed_as_worker(base_seed: int, number: int) -> None:
    """As torch seeds a worker: numpy from another stream than the other two."""
    seed_everything(base_seed + number)
    numpy = sys.modules.get("numpy")
    generate: Any = getattr(torch_worker, "_generate_state", None)
    if numpy is not None and generate is not None:
        numpy.random.seed(generate(base_seed, number))


def _worker_info(number: int, count: int, seed: int, dataset: Any) -> Any:
    return torch_worker.WorkerInfo(id=number, num_workers=count, seed=seed, dataset=dataset)
