"""The random generators of a worker that the script starts, as they would be in a process of its own."""

from __future__ import annotations

import random
import sys
import zlib
from typing import Any

import torch

from dpcheck.verify.session import Session


class Seeds:
    """Remembers how the generators were before the script ran, to tell whether it has seeded them since."""

    def __init__(self, session: Session) -> None:
        self._seed = session.job.seed
        self._common = zlib.crc32(session.job.shared.encode())  # the same in all ranks of the run
        self._torch_at_first = torch.initial_seed()
        self._numpy_at_first = _numpy_key()

    def afresh(self) -> None:
        """A new interpreter: no seed of the parent reaches it."""
        if self._seed is None:
            torch.seed()
        else:
            torch.manual_seed(self._seed)
        random.seed(self._seed)
        numpy: Any = sys.modules.get("numpy")
        if numpy is not None:
            numpy.random.seed(None if self._seed is None else self._seed % 2**32)

    def forked(self) -> None:
        """A fork: torch and numpy go on from the parent's state, the same in all workers; Python's random does not."""
        if self._seed is not None:
            return
        random.seed()
        if torch.initial_seed() == self._torch_at_first:
            torch.manual_seed(self._common)
        numpy: Any = sys.modules.get("numpy")
        if numpy is not None and self._numpy_at_first in (None, _numpy_key()):
            numpy.random.seed(self._common)


def _numpy_key() -> bytes | None:
    numpy: Any = sys.modules.get("numpy")
    if numpy is None:
        return None
    key: bytes = numpy.random.get_state()[1].tobytes()
    return key
