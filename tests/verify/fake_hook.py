"""Stands for the hooks where only processes are tested: steps are counted, and the K-th ends the script."""

from __future__ import annotations

import datetime

import torch.distributed as dist
from torch.distributed import distributed_c10d
from torch.optim.optimizer import register_optimizer_step_pre_hook

from dpcheck.verify.session import Session


def install(session: Session) -> None:
    session.places._known[__file__] = False  # as the real hooks', this file's frames are not the user's

    def before_step(*_: object) -> None:
        if session.inside:
            return
        if session.window.index == session.job.steps:
            session.stop()
        session.open_next_window()
        session.event("step", session.here())

    register_optimizer_step_pre_hook(before_step)
    _map_groups(session)
    for name in ("all_reduce", "barrier"):
        _watch(session, name)


def _map_groups(session: Session) -> None:
    """Groups meet in a file that the run shares, whatever address the script gives."""
    original = distributed_c10d.init_process_group
    count = 0

    def init_process_group(*_: object, **__: object) -> None:
        nonlocal count
        count += 1
        job = session.job
        store = dist.FileStore(f"{job.shared}/store-{count}", job.world_size)
        original("gloo", store=store, rank=job.rank, world_size=job.world_size, timeout=datetime.timedelta(seconds=600))

    dist.init_process_group = distributed_c10d.init_process_group = init_process_group


def _watch(session: Session, name: str) -> None:
    original = getattr(distributed_c10d, name)

    def collective(*arguments: object, **options: object) -> object:
        if not session.inside:
            session.event("collective", session.here(), inside=name)
        try:
            return original(*arguments, **options)
        finally:
            if not session.inside:
                session.event("collective done", inside="")

    setattr(dist, name, collective)
    setattr(distributed_c10d, name, collective)
