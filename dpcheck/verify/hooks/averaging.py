"""Local SGD: the ranks step apart and average their weights every few steps. It is told, not judged."""

from __future__ import annotations

import functools
from typing import Any

from dpcheck.verify.session import Session
from dpcheck.verify.shim import importing

KIND = "model-averaging"
_AVERAGERS = {
    "accelerate.local_sgd": ("LocalSGD",),
    "torch.distributed.algorithms.model_averaging.averagers": ("ModelAverager",),
}


def install(session: Session) -> None:
    finder = importing.install()
    for module, names in _AVERAGERS.items():
        finder.adapt(module, functools.partial(_tell, session, names))


def _tell(session: Session, names: tuple[str, ...], module: Any) -> None:
    for name in names:
        averager = getattr(module, name)
        averager.__init__ = _telling(session, averager.__init__)


def _telling(session: Session, construct: Any) -> Any:
    @functools.wraps(construct)
    def initialize(self: Any, *args: Any, **kwargs: Any) -> None:
        construct(self, *args, **kwargs)
        if session.is_rank and getattr(self, "enabled", True):
            session.note(KIND, "the ranks' weights are averaged from time to time", session.here())

    return initialize
