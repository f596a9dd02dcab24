"""What stands in for the script's GPUs: how many it sees, which one is current, and a random generator of their own."""

from __future__ import annotations

import functools
import pathlib

import torch
from torch.utils._device import DeviceContext

from dpcheck.verify import recording
from dpcheck.verify.session import Session
from dpcheck.verify.shim import launchers

FOR_GPU = "_dpcheck_for_gpu"
"""The attribute of a default device that is one for a GPU."""
TYPES = frozenset({"cuda", "xpu", "mps", "hpu", "npu", "mtia", "musa", "hip"})


class Accelerator:
    """The imagined GPUs of one process.

    Draws on a GPU come from the GPU's generator, which `torch.manual_seed` and `torch.cuda.manual_seed` seed: a script
    that seeds the one and not the other has ranks that agree in part.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self.current = 0
        self.generator = torch.Generator()
        if session.job.seed is None:
            self.generator.seed()
        else:
            self.generator.manual_seed(session.job.seed)
        self.serving = 0  # calls under way for which a GPU is the default device

    def is_seen(self) -> bool:
        """The user's code sees GPUs, installed libraries do not: their GPU paths touch more than is imitated."""
        return self._session.places.called_by_user(2)

    @functools.cached_property
    def count(self) -> int:
        """As many as a machine has ranks, in a reference too: scripts refuse to start with fewer than they want.

        But a launcher that starts a process for each GPU must start one in a reference.
        """
        job = self._session.job
        if job.role == "rank":
            return job.world_size // job.nodes
        if job.feed is None or not job.feed.folders:
            return job.world_size
        first = recording.read(pathlib.Path(job.feed.folders[0]))
        if first is not None and any(note.kind == launchers.STARTED for note in first.notes):
            return job.world_size
        return len(job.feed.folders) // job.nodes

    @property
    def is_default(self) -> bool:
        """Whether a GPU is the default device, by `torch.set_default_device` or `with torch.device(…)`."""
        if self.serving:
            return True
        # A mode of torch's own: the innermost is the last.
        for position in reversed(range(torch._C._len_torch_function_stack())):
            mode = torch._C._get_function_stack_at(position)
            if isinstance(mode, DeviceContext):
                return getattr(mode, FOR_GPU, False)
        return False


def index_of(device: object) -> int | None:
    """The index in `0`, `"cuda:0"` or `torch.device("cuda", 0)`."""
    if isinstance(device, int):
        return device
    if isinstance(device, str):
        kind, _, index = device.partition(":")
        return int(index) if kind in TYPES and index.isdigit() else None
    return getattr(device, "index", None)


def is_accelerator(device: object) -> bool:
    """Whether the script means a GPU: an index, a name or a `torch.device`."""
    if isinstance(device, bool):
        return False
    if isinstance(device, int):
        return True
    if isinstance(device, str):
        return device.partition(":")[0] in TYPES
    return getattr(device, "type", None) in TYPES
