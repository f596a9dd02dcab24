"""Imitated workers give the batches that torch's own worker processes give."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

from dpcheck.verify.hooks import data
from dpcheck.verify.job import Job
from dpcheck.verify.places import Places
from dpcheck.verify.session import Session


class Crops(Dataset[tuple[int, float, float, float]]):
    """Random augmentation from all three generators."""

    def __len__(self) -> int:
        return 11

    def __getitem__(self, index: int) -> tuple[int, float, float, float]:
        return index, float(torch.rand(())), random.random(), float(np.random.rand())


class Stream(IterableDataset[int]):
    """Each worker reads every n-th number, as long as it likes."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.started = 0

    def __iter__(self) -> Iterator[int]:
        info = get_worker_info()
        self.started += 1
        assert self.started == 1, "each worker has its own copy of the data set"
        first, step = (info.id, info.num_workers) if info is not None else (0, 1)
        yield from range(first, self.length, step)


def begin(worker: int) -> None:
    """A worker_init_fn that changes what the worker draws."""
    random.seed(worker)


LOADERS: dict[str, Any] = {
    "augmentation": lambda: DataLoader(Crops(), batch_size=2, num_workers=3),
    "shuffled": lambda: DataLoader(Crops(), batch_size=2, shuffle=True, num_workers=2),
    "worker_init_fn": lambda: DataLoader(Crops(), batch_size=3, num_workers=2, worker_init_fn=begin),
    "no workers": lambda: DataLoader(Crops(), batch_size=4),
    "stream": lambda: DataLoader(Stream(13), batch_size=2, num_workers=2),
    "short stream": lambda: DataLoader(Stream(5), batch_size=2, num_workers=3),
    "stream without the rest": lambda: DataLoader(Stream(14), batch_size=4, drop_last=True, num_workers=3),
    "single samples": lambda: DataLoader(Stream(7), batch_size=None, num_workers=2),
}


def batches(loader: DataLoader[Any]) -> list[Any]:
    torch.manual_seed(5)
    random.seed(5)
    np.random.seed(5)
    return [batch.tolist() if isinstance(batch, torch.Tensor) else batch for batch in loader]


@pytest.mark.parametrize("name", LOADERS)
def test_imitated_workers_give_the_batches_of_real_ones(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = batches(LOADERS[name]())
    session = recording_loaders(tmp_path, monkeypatch)
    imitated = batches(LOADERS[name]())
    assert real
    assert str(imitated) == str(real)
    assert len(session.recording.fetches) == len(real)


def test_batches_are_recorded_by_index_and_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = recording_loaders(tmp_path, monkeypatch)
    loader = DataLoader(torch.utils.data.TensorDataset(torch.arange(5.0)), batch_size=2, shuffle=True)
    for _ in range(2):
        batches(loader)
    [description] = session.recording.loaders
    assert (description.length, description.batches, description.passes) == (5, 3, 2)
    assert description.ended == {0: 3, 1: 3}
    assert description.place.path == __file__
    first, second = session.recording.fetches[:3], session.recording.fetches[3:]
    assert [fetch.indices for fetch in first] == [fetch.indices for fetch in second]
    assert sorted(index for fetch in first for index in fetch.indices or ()) == list(range(5))
    samples = {sample for fetch in session.recording.fetches for sample in fetch.samples or ()}
    assert len(samples) == 5


def recording_loaders(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    """A session that records the loaders of this process until the test ends."""
    iterator: Any = torch.utils.data.dataloader._SingleProcessDataLoaderIter
    for owner, name in [
        (DataLoader, "__init__"),
        (DataLoader, "__len__"),
        (iterator, "__init__"),
        (iterator, "_next_data"),
    ]:
        monkeypatch.setattr(owner, name, getattr(owner, name))  # put back what the hooks replace
    job = Job("rank", 0, 2, str(folder), str(folder), __file__, False, [], str(folder), 0)
    session = Session(job, Places(Path(__file__)))
    data.install(session, None)
    return session
