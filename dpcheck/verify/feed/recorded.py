"""What a rank left for the reference: samples, draws, inputs and the state at the first forward of each window."""

from __future__ import annotations

import functools
import pathlib
import pickle
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file

from dpcheck.verify import wire
from dpcheck.verify.hooks.data import SAMPLES
from dpcheck.verify.recording import Draw, Recording, Share, Window, read, state_file


class RecordedRank:
    """One rank's recording, opened for feeding. Batches are read when they are asked for."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        recording = read(folder)
        if recording is None:
            raise FileNotFoundError(f"{folder} holds no recording")
        self.recording: Recording = recording
        self._offsets: dict[int, tuple[int, int]] | None = None
        self._fetches = {
            (fetch.loader, fetch.epoch, fetch.ordinal): number for number, fetch in enumerate(recording.fetches)
        }

        self._windows = {window.index: window for window in recording.windows}
        self._drawn: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for window in recording.windows:
            for index, draw in enumerate(window.draws):
                moment = self.moment(window.index, draw.forwards)
                self._drawn.setdefault(moment, []).append((window.index, index))

    def fetch(self, loader: int, epoch: int, ordinal: int) -> int | None:
        """The number of the fetch, where this rank made it."""
        return self._fetches.get((loader, epoch, ordinal))

    def batches_of_pass(self, loader: int, epoch: int) -> int | None:
        """How many batches the pass had, where this rank read it to its end."""
        return self.recording.loaders[loader].ended.get(epoch)

    def samples(self, fetch: int) -> tuple[list[Any] | None, Any] | None:
        """The samples of a fetch, and the batch where it was collated at random or not at all. None if not kept."""
        place = self._index().get(fetch)
        if place is None:
            return None
        with (self.folder / SAMPLES).open("rb") as file:
            file.seek(place[0])
            items, batch = pickle.loads(file.read(place[1]))
        return items, batch

    def _index(self) -> dict[int, tuple[int, int]]:
        if self._offsets is None:
            self._offsets = {}
            with (self.folder / SAMPLES).open("rb") as file:
                while header := file.read(16):
                    size = int.from_bytes(header[:8], "little")
                    number = int.from_bytes(header[8:], "little")
                    self._offsets[number] = (file.tell(), size)
                    file.seek(size, 1)
        return self._offsets

    @property
    def windows(self) -> dict[int, Window]:
        return self._windows

    def drawn(self, window: int, forward: int, number: int) -> tuple[Draw, torch.Tensor] | None:
        """The draw `number` of those between the training forwards `forward` - 1 and `forward` of a window."""
        draws = self._drawn.get((window, forward), [])
        if number >= len(draws):
            return None
        place, index = draws[number]
        value = self.draws(place).get(f"{index}")
        return None if value is None else (self._windows[place].draws[index], value)

    def moment(self, window: int, forwards: int, times: int = 1) -> tuple[int, int]:
        """The training forward that comes next after `forwards` of a window with `times` as many as this rank's.

        A batch may be drawn ahead, before the step that ends the window of the forward before it.
        """
        found = self._windows.get(window)
        return (window + 1, 0) if found is not None and forwards >= found.forwards * times else (window, forwards)

    @functools.cache  # noqa: B019 - lives as long as its process
    def draws(self, window: int) -> dict[str, torch.Tensor]:
        return _load(self.folder / f"draws-{window}.safetensors")

    @functools.cache  # noqa: B019
    def inputs(self, window: int) -> dict[str, torch.Tensor]:
        return _load(self.folder / f"inputs-{window}.safetensors")

    def state(self, window: int) -> tuple[dict[str, torch.Tensor], dict[str, Share]]:
        """The models' state at the first forward of the window, as this rank held it; empty where it kept none."""
        file = state_file(self.folder, window)
        if not file.exists():
            return {}, {}
        with safe_open(file, framework="pt") as opened:
            metadata = opened.metadata()
        shares = wire.decode(metadata["shares"], dict[str, Share])
        return load_file(file), shares


def _load(file: pathlib.Path) -> dict[str, torch.Tensor]:
    return load_file(file) if file.exists() else {}
