"""What the hooks inside one process share: the job, the recording under way, and the open window."""

from __future__ import annotations

import contextlib
import os
import pathlib
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import msgspec

from dpcheck.verify.job import Job
from dpcheck.verify.places import Places
from dpcheck.verify.recording import Note, Place, Recording, Window, write
from dpcheck.verify.status import StatusFile

if TYPE_CHECKING:
    import torch

    from dpcheck.verify.hooks.modules import Models


class StopScript(BaseException):
    """Raised where a process must leave the script and cannot leave at once."""


class Session:
    """One process of a verified run. Hook modules each have `install(session)` and keep their own state.

    `window` is the open window: hooks append to it, `hooks/steps.py` closes it at the optimizer step. `tensors` are
    those of the open window, by the keys that `recording.Window` names. The callbacks run when a window is recorded,
    when the next one begins, and before the recording is written.
    """

    def __init__(self, job: Job, places: Places) -> None:
        self.job = job
        self.places = places
        self.folder = pathlib.Path(job.folder)
        self.status = StatusFile(self.folder)
        self.started = time.monotonic()
        self.recording = Recording(
            role=job.role, rank=job.rank, world_size=job.world_size, dtype=job.dtype, ending="ended"
        )
        self.window = new_window(0)
        self.tensors: dict[str, torch.Tensor] = {}
        self.at_window_start: list[Callable[[], None]] = []
        self.before_window_ends: list[Callable[[], None]] = []
        self.before_finish: list[Callable[[], None]] = []
        self.models: Models | None = None  # set by hooks.install
        self.files_are_private = True  # what the script writes vanishes with the run; where not, child.py says so
        self.inside = 0  # > 0 while dpcheck's own code calls torch: hooks look away
        self.training_forward = 0  # depth of training forwards of an outermost module
        self._noted: set[tuple[str, Place]] = set()
        self._finished = False

    @property
    def is_rank(self) -> bool:
        return self.job.role == "rank"

    def here(self) -> Place:
        """The line of the user's code that is being executed."""
        return self.places.here(2)

    def event(self, what: str, place: Place | None = None, *, inside: str | None = None) -> None:
        """Tell the conductor that the process is alive: what it does, where, and inside which collective it waits."""
        self.status.event(what, place, inside=inside, step=self.window.index)

    def note(self, kind: str, text: str, place: Place | None = None) -> None:
        """Record once a kind and place that something was changed or could not be seen."""
        place = place or Place()
        if (kind, place) not in self._noted:
            self._noted.add((kind, place))
            self.recording.notes.append(Note(kind, text, place))

    @contextlib.contextmanager
    def looking_away(self) -> Iterator[None]:
        """What runs inside is dpcheck's own and is not recorded."""
        self.inside += 1
        try:
            yield
        finally:
            self.inside -= 1

    @contextlib.contextmanager
    def harmlessly(self) -> Iterator[None]:
        """As `looking_away`; and an error of dpcheck's own inside is noted, and kept from the script."""
        with self.looking_away():
            try:
                yield
            except Exception as error:
                text = f"not all was recorded here: {type(error).__name__}: {error}"
                self.note("hook-failed", text, self.places.here(3))

    def open_next_window(self) -> None:
        self.window = new_window(self.window.index + 1)
        self.tensors = {}
        for begin in self.at_window_start:
            begin()

    def finish(self) -> None:
        """Write the recording, once."""
        if self._finished:
            return
        self._finished = True
        self._complete()
        self.recording.seconds["script"] = time.monotonic() - self.started
        write(self.recording, self.folder)
        self.status.event("finished", None, inside="", step=self.window.index)

    def tell(self, folder: pathlib.Path) -> None:
        """Write to `folder` what was recorded so far, and again with what is only told at the end, if it can be had."""
        cut = msgspec.structs.replace(self.recording, ending="cut")
        write(cut, folder)
        self._complete()
        cut = msgspec.structs.replace(self.recording, ending="cut")
        write(cut, folder)

    def _complete(self) -> None:
        """Fill in what is only told at the end. The script may have failed: so may this, and then it is left out."""
        with self.looking_away():
            if self.models is not None:
                self.recording.models = self.models.describe()
            for complete in self.before_finish:
                try:
                    complete()
                except Exception as error:
                    self.note("hook-failed", f"not all was recorded: {type(error).__name__}: {error}")

    def stop(self) -> None:
        """Write the recording and leave without running anything more of the script.

        A rank lives on, asleep, until it is killed: its peers may still need its sockets.
        """
        self.recording.ending = "stopped"
        self.finish()
        while self.is_rank:
            time.sleep(3600)
        os._exit(0)


def new_window(index: int) -> Window:
    return Window(
        index=index,
        optimizer=0,
        optimizer_type="",
        place=Place(),
        gradients=[],
        weights=[],
        buffers={},
        forwards=0,
        backwards=0,
    )
