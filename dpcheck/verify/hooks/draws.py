"""Random numbers that the script's own code draws between the models: indices of random windows, noise, time steps.

A rank records them; the reference gets the ranks' draws, one after the other along the first dimension where its own
draw has the size of all of them together (or, fed at the draws, wherever the ranks' shapes allow it).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Protocol

import torch
from safetensors.torch import save_file

from dpcheck.verify import content
from dpcheck.verify.recording import Draw
from dpcheck.verify.session import Session

FUNCTIONS = (
    "rand", "randn", "randint", "rand_like", "randn_like", "randint_like", "bernoulli", "normal", "multinomial",
    "randperm",
)  # fmt: skip
_LARGEST = 5_000_000  # elements of a draw that is recorded
_KEPT = 10_000  # draws of a window


class DrawFeed(Protocol):
    """Serves the reference: see dpcheck.verify.feed."""

    def draw(self, window: int, forwards: int, function: str, drawn: torch.Tensor) -> torch.Tensor: ...


class Draws:
    """The draws of the open window, in order."""

    def __init__(self, session: Session, feed: DrawFeed | None) -> None:
        self._session = session
        self._feed = feed
        self._drawing = False
        session.at_window_start.append(self._restart)
        self._values: dict[str, torch.Tensor] = {}
        self._number = 0

    def _restart(self) -> None:
        self._values = {}
        self._number = 0

    def wrapping(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def draw(*args: Any, **kwargs: Any) -> Any:
            session = self._session
            if self._drawing or session.inside or session.training_forward or not session.places.called_by_user(2):
                return original(*args, **kwargs)
            self._drawing = True
            try:
                drawn = original(*args, **kwargs)
            finally:
                self._drawing = False
            if not isinstance(drawn, torch.Tensor) or drawn.numel() > _LARGEST or self._number >= _KEPT:
                return drawn
            return self._drew(name, drawn)

        return draw

    def _drew(self, name: str, drawn: torch.Tensor) -> torch.Tensor:
        session = self._session
        number = self._number
        self._number += 1
        with session.looking_away(), torch.no_grad():
            if self._feed is not None:
                served = self._feed.draw(session.window.index, session.window.forwards, name, drawn)
                return served.requires_grad_(drawn.requires_grad) if served is not drawn else drawn
            if session.is_rank:
                values = drawn.detach().clone()
                self._values[f"{number}"] = values
                window = session.window
                told = Draw(name, list(drawn.shape), content.digest(values), session.here(), window.forwards)
                window.draws.append(told)
        return drawn

    def save(self) -> None:
        """Write the draws of the window beside its tensors: `draws-<window>.safetensors`."""
        if self._values:
            file = self._session.folder / f"draws-{self._session.window.index}.safetensors"
            save_file({name: value.contiguous() for name, value in self._values.items()}, file)


def install(session: Session, feed: DrawFeed | None) -> Draws:
    draws = Draws(session, feed)
    for name in FUNCTIONS:
        original = getattr(torch, name)
        setattr(torch, name, draws.wrapping(name, original))
    return draws
