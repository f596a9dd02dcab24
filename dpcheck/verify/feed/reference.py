"""Feeds a reference run: each hook asks here for what the ranks had in its place."""

from __future__ import annotations

import pathlib
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from dpcheck.verify import content
from dpcheck.verify.feed.recorded import RecordedRank
from dpcheck.verify.feed.schedule import counterparts
from dpcheck.verify.feed.union import concatenated, joined, overlaid
from dpcheck.verify.hooks.data import NOT_RECORDED
from dpcheck.verify.hooks.modules import Models
from dpcheck.verify.hooks.shares import Piece
from dpcheck.verify.job import Feed
from dpcheck.verify.recording import Loader, Window
from dpcheck.verify.session import Session

_Pick = tuple[RecordedRank, int]  # a rank and the number of one of its fetches


class ReferenceFeed:
    """The ranks' recordings, served to one process in their union."""

    def __init__(self, session: Session, feed: Feed) -> None:
        self._session = session
        self._feed = feed
        self._ranks = [RecordedRank(pathlib.Path(folder)) for folder in feed.folders]
        self._own = self._ranks if feed.rank is None else [self._ranks[feed.rank]]
        self._matches: dict[int, list[int | None]] = {}
        self._served: dict[int, int] = {}
        self._drawn: dict[tuple[int, int], int] = {}  # draws so far before a training forward
        self._sizes: list[int] = []  # rows that each rank contributed to the batch served last
        self._recurring = {
            draw.place for window in self._ranks[0].recording.windows if window.index > 0 for draw in window.draws
        }
        self._forwards = -1
        self._losses = -1
        session.at_window_start.append(self._begin_window)

    @property
    def replaces_inputs(self) -> bool:
        """Whether the inputs of models are exchanged, since no loader and no draw brings the batches."""
        return self._feed.level == "forward"

    def _begin_window(self) -> None:
        self._forwards = self._losses = -1

    # -- loaders

    def batches(self, loader: Loader, number: int) -> int | None:
        """The length that the ranks' loader has: the script's arithmetic with it must come out the same."""
        match = self._match(loader, number)[0]
        return None if match is None else self._ranks[0].recording.loaders[match].batches

    def batch(self, loader: Loader, number: int, epoch: int, ordinal: int, collate: Callable[[Any], Any]) -> Any:
        """The union that stands for a batch; NOT_RECORDED where no rank read this loader so far.

        Raises StopIteration where the ranks' pass had ended.
        """
        if self._feed.level == "none":
            return NOT_RECORDED
        matches = self._match(loader, number)
        picks = self._picks(matches, number, epoch, ordinal)
        if not picks:
            for rank, match in zip(self._ranks, matches, strict=True):
                size = None if match is None else rank.batches_of_pass(match, epoch)
                if size is not None and ordinal >= size * (len(self._ranks) if self._feed.order == "sequence" else 1):
                    raise StopIteration
            return NOT_RECORDED
        return self._union(picks, collate)

    def window_of_rank(self, rank: int, index: int) -> Window | None:
        """A window as that rank recorded it."""
        return _window(self._ranks[rank], index)

    def _picks(self, matches: Sequence[int | None], loader: int, epoch: int, ordinal: int) -> list[_Pick]:
        if self._feed.order != "union":
            windows = [self._windows(rank, match) for rank, match in zip(self._ranks, matches, strict=True)]
            if any(windows):
                return self._picks_of_window(windows, loader)
        picks: list[_Pick] = []
        for number, (rank, match) in enumerate(zip(self._ranks, matches, strict=True)):
            fetch = None if match is None else rank.fetch(match, epoch, ordinal)
            if fetch is not None and self._feed.rank in (None, number):
                picks.append((rank, fetch))
        return picks

    def _picks_of_window(self, windows: list[list[list[int]]], number: int) -> list[_Pick]:
        """The fetches that stand for the next batch, where windows are fed whole or rank after rank."""
        position = self._served.get(number, 0)
        self._served[number] = position + 1
        micro_batches = max(len(window) for rank in windows for window in rank)
        if self._feed.order == "window":
            index = position // micro_batches
            return [
                (rank, fetch)
                for rank, own in zip(self._ranks, windows, strict=True)
                for fetch in (own[index] if index < len(own) else [])
            ]
        index, place = divmod(position, micro_batches * len(self._ranks))
        which = place % len(self._ranks)
        own = windows[which]
        if index >= len(own) or place // len(self._ranks) >= len(own[index]):
            return []
        return [(self._ranks[which], own[index][place // len(self._ranks)])]

    def _windows(self, rank: RecordedRank, loader: int | None) -> list[list[int]]:
        """The fetches of this loader by the window that used them."""
        fetches = rank.recording.fetches
        windows = [[f for f in window.fetches if fetches[f].loader == loader] for window in rank.recording.windows]
        return [window for window in windows if window]

    def _union(self, picks: Sequence[_Pick], collate: Callable[[Any], Any]) -> Any:
        with self._session.looking_away():
            kept = [rank.samples(fetch) for rank, fetch in picks]
        if any(each is None for each in kept):
            self._session.note("not-fed", "a batch of the ranks could not be handed on, the script read its own")
            return NOT_RECORDED
        samples = [items for each in kept if each is not None and (items := each[0]) is not None]
        batches = [each[1] for each in kept if each is not None and each[1] is not None]
        if not samples:
            self._sizes = [_rows(batch) for batch in batches]
            return joined(batches)
        self._sizes = [len(items) for items in samples]
        union = collate([sample for items in samples for sample in items])
        return overlaid(union, batches) if len(batches) == len(samples) else union

    def _match(self, loader: Loader, number: int) -> list[int | None]:
        """Each rank's loader in the same place: the n-th made at the same line; else the n-th at all."""
        if number in self._matches:
            return self._matches[number]
        nth = sum(1 for other in self._session.recording.loaders[:number] if other.place == loader.place)
        matches: list[int | None] = []
        for rank in self._ranks:
            theirs = rank.recording.loaders
            same_place = [n for n, other in enumerate(theirs) if other.place == loader.place]
            if nth < len(same_place):
                matches.append(same_place[nth])
            elif not same_place and number < len(theirs) and theirs[number].dataset == loader.dataset:
                matches.append(number)
            else:
                matches.append(None)
        if number < len(self._session.recording.loaders):
            self._matches[number] = matches
        return matches

    def rows_of_ranks(self, total: int) -> list[int] | None:
        """How many of `total` rows come from each rank, for rows that keep the order of the samples."""
        samples = sum(self._sizes)
        if not samples or total % samples:
            return None
        return [size * (total // samples) for size in self._sizes]

    # -- draws

    def draw(self, window: int, forwards: int, function: str, drawn: torch.Tensor) -> torch.Tensor:
        """The ranks' draws in place of `drawn`; `drawn` itself where they do not fit it."""
        times = len(self._ranks) if self._feed.order == "sequence" else 1
        moment = self._ranks[0].moment(window, forwards, times)
        number = self._drawn[moment] = self._drawn.get(moment, -1) + 1
        found: list[torch.Tensor] = []
        for rank, forward in self._counterparts(*moment):
            record = rank.drawn(moment[0], forward, number)
            if record is None or record[0].function != function:
                return drawn
            found.append(record[1])
        if not found:
            return drawn
        rows = drawn.dim() > 0 and all(value.shape[1:] == drawn.shape[1:] for value in found)
        alike = all(value.shape == drawn.shape for value in found)
        if self._feed.level == "draws" and alike and rows and self._session.here() in self._recurring:
            return torch.cat(found)
        if alike:
            return found[0].clone()
        if rows and sum(value.shape[0] for value in found) == drawn.shape[0]:
            return torch.cat(found)
        self._session.note("draw-differs", "a random draw has another shape than the ranks' draws together")
        return drawn

    def _counterparts(self, window: int, forward: int) -> list[tuple[RecordedRank, int]]:
        """The training forwards of the ranks that one of the reference stands for."""
        record = self._ranks[0].windows.get(window)
        if record is None:
            return [(rank, forward) for rank in self._own]
        return self._picked(record.forwards, record.backwards, forward)

    def _picked(self, calls: int, micro_batches: int, number: int) -> list[tuple[RecordedRank, int]]:
        picks = counterparts(self._feed.order, len(self._ranks), calls, micro_batches, number)
        return [(self._ranks[rank], call) for rank, call in picks if self._feed.rank in (None, rank)]

    # -- inputs, where no loader brings them

    def inputs(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The inputs of an outermost forward, the ranks' concatenated."""
        self._forwards += 1
        window = self._session.window.index
        if window not in self._ranks[0].windows:
            return args, kwargs
        tensors = content.leaves((args, kwargs))
        prefixes = [(rank, f"input/{forward}") for rank, forward in self._counterparts(window, self._forwards)]
        served = self._stored(window, prefixes, len(tensors))
        if served is None:
            self._session.note("not-fed", "a model's inputs do not match those of the ranks", self._session.here())
            return args, kwargs
        with self._session.looking_away():
            union = [concatenated(column).to(tensor.dtype) for column, tensor in zip(served, tensors, strict=True)]
        self._sizes = [_rows(column) for column in zip(*served, strict=True)]
        replaced: tuple[tuple[Any, ...], dict[str, Any]] = content.replaced((args, kwargs), union)
        return replaced

    def target(self, target: torch.Tensor, rows: int) -> torch.Tensor:
        """The targets of one of torch's losses whose input has `rows` rows."""
        self._losses += 1
        window = self._session.window.index
        record = self._ranks[0].windows.get(window)
        if record is None:
            return target
        losses = len({name.split("/")[1] for name in self._ranks[0].inputs(window) if name.startswith("target/")})
        picks = self._picked(losses, record.backwards, self._losses)
        served = self._stored(window, [(rank, f"target/{loss}") for rank, loss in picks], 1)
        if served is None:
            return target
        with self._session.looking_away():
            union = concatenated(served[0]).to(target.dtype)
        return union if union.shape[0] == rows else target

    def _stored(
        self, window: int, prefixes: Sequence[tuple[RecordedRank, str]], count: int
    ) -> list[list[torch.Tensor]] | None:
        """By tensor, the ranks' values."""
        columns = [[rank.inputs(window).get(f"{prefix}/{leaf}") for rank, prefix in prefixes] for leaf in range(count)]
        if not columns or not prefixes or any(value is None for column in columns for value in column):
            return None
        return [[value for value in column if value is not None] for column in columns]

    # -- state

    def restore(self, models: Models, window: int) -> None:
        """Give the models the parameters and buffers that the ranks had at the first forward of this window."""
        states = [rank.state(window) for rank in self._ranks]
        if not states[0][0]:
            if _window(self._ranks[0], window) is not None:
                text = f"the ranks' weights before step {window} were not kept: the one process has its own"
                self._session.note("no-state", text)
            return
        missing = [piece.name for piece in models.pieces() if not self._fill_parameter(piece, states)]
        for name, buffer in models.buffers().items():
            values = states[0][0].get(f"buffer/{name}")
            if values is None or values.numel() != buffer.numel():
                missing.append(name)
            else:
                buffer.copy_(values.view(buffer.shape))
        if missing:
            listed = ", ".join(missing[:5])
            self._session.note("no-state", f"the one process could not be given the ranks' values of {listed}")

    def _fill_parameter(self, piece: Piece, states: Sequence[tuple[dict[str, torch.Tensor], Any]]) -> bool:
        key = f"parameter/{piece.name}"
        filled = 0
        for tensors, shares in states:
            share = shares.get(key)
            if share is None or share.shape != list(piece.shape):
                continue
            start, stop = max(share.start, piece.start), min(share.stop, piece.stop)
            if stop > start:
                held = tensors[key][start - share.start : stop - share.start]
                piece.put(self._rounded_otherwise(held, f"{key}/{start}"), start)
                filled += stop - start
            if share.stop - share.start == piece.stop - piece.start:
                return True  # unsharded: the first rank's is everyone's
        return filled >= piece.stop - piece.start

    def _rounded_otherwise(self, held: torch.Tensor, name: str) -> torch.Tensor:
        """Each number off by up to one unit in its last place, where that was asked for."""
        if not self._feed.perturbed or not held.is_floating_point():
            return held
        noise = np.random.default_rng(zlib.crc32(f"{self._feed.perturbed}/{name}".encode())).uniform(-1, 1, held.shape)
        return held * (1 + torch.finfo(held.dtype).eps * torch.from_numpy(noise).to(held.dtype))


def _window(rank: RecordedRank, index: int) -> Window | None:
    return next((window for window in rank.recording.windows if window.index == index), None)


def _rows(batch: Any) -> int:
    sizes = [tensor.shape[0] for tensor in content.leaves(batch) if tensor.dim()]
    return max(set(sizes), key=sizes.count) if sizes else 0
