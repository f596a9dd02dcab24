"""Where the script seeds a random state: weights that differ between ranks may come from it."""

from __future__ import annotations

import functools
from typing import Any

import torch

from dpcheck.verify.hooks.modules import Models
from dpcheck.verify.recording import Seed
from dpcheck.verify.session import Session


def install(session: Session, models: Models) -> None:
    """Record the calls of `torch.manual_seed`, the script's own and those that libraries make for it."""
    original = torch.manual_seed

    @functools.wraps(original)
    def manual_seed(seed: Any) -> torch.Generator:
        if not session.inside:
            value = seed if isinstance(seed, int) else int(seed)
            session.recording.seeds.append(Seed("torch.manual_seed", value, session.here(), models.built))
        return original(seed)

    torch.manual_seed = torch.random.manual_seed = manual_seed
