"""Process groups: gloo in place of nccl, and rank, world size and store are those of the run.

Whatever address and port the script has, its ranks meet in a file of the run's own folder, one for each initialization.
"""

from __future__ import annotations

import datetime
import functools
import inspect
import pathlib
from types import ModuleType
from typing import Any

import torch.distributed as dist
from torch._C._distributed_c10d import FileStore
from torch.distributed import distributed_c10d

from dpcheck.verify.session import Session
from dpcheck.verify.shim.accelerator import TYPES
from dpcheck.verify.shim.importing import AdaptingFinder
from dpcheck.verify.shim.patching import Function, Patches

_PATIENCE = datetime.timedelta(days=1)  # the conductor tells a hang sooner, and says where it is
_OF_A_DEVICE = ("device_id", "pg_options", "backend_options")


def install(session: Session, patches: Patches, finder: AdaptingFinder) -> None:
    groups = _Groups(session)
    patches.wrap(distributed_c10d, "init_process_group", groups.initializing)
    patches.wrap(distributed_c10d, "new_group", groups.making)
    patches.wrap(distributed_c10d, "destroy_process_group", groups.destroying)
    if session.job.backend == "gloo":
        patches.wrap(distributed_c10d, "split_group", groups.splitting)
    if session.job.device == "cpu":
        finder.adapt("torch.distributed.device_mesh", functools.partial(_meshes, patches))


class _Groups:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._initialized = 0
        self._kept: list[Any] = []

    def initializing(self, original: Function) -> Function:
        signature = inspect.signature(original)

        def init_process_group(*args: Any, **kwargs: Any) -> None:
            asked = signature.bind(*args, **kwargs).arguments
            session, job = self._session, self._session.job
            self._compare("world size", asked.get("world_size"), job.world_size)
            self._compare("rank", asked.get("rank"), job.rank)
            file = pathlib.Path(job.shared) / f"store-{self._initialized}"
            self._initialized += 1
            kept = {} if job.device == "cpu" else {name: asked[name] for name in _OF_A_DEVICE if name in asked}
            session.event("init_process_group", session.here(), inside="init_process_group")
            original(
                backend=job.backend,
                store=FileStore(str(file), job.world_size),
                rank=job.rank,
                world_size=job.world_size,
                timeout=_PATIENCE,
                **kept,
            )
            session.event("init_process_group done", inside="")

        return init_process_group

    def _compare(self, what: str, asked: Any, given: int) -> None:
        if isinstance(asked, int) and asked not in (-1, given):
            text = f"the script asked for {what} {asked} and got {given}"
            self._session.note(what.replace(" ", "-"), text, self._session.here())

    def making(self, original: Function) -> Function:
        signature = inspect.signature(original)

        def new_group(*args: Any, **kwargs: Any) -> Any:
            asked = signature.bind(*args, **kwargs).arguments
            for name in _OF_A_DEVICE if self._session.job.device == "cpu" else ():
                asked.pop(name, None)
            asked["backend"] = self._session.job.backend
            asked["timeout"] = _PATIENCE
            return original(**asked)

        return new_group

    def splitting(self, original: Function) -> Function:
        """Only nccl splits: make the groups one after the other."""

        def split_group(
            parent_pg: Any = None,
            split_ranks: Any = None,
            timeout: Any = None,
            pg_options: Any = None,
            group_desc: str | None = None,
        ) -> Any:
            parent = dist.get_process_group_ranks(dist.group.WORLD if parent_pg is None else parent_pg)
            ours = None
            for ranks in split_ranks:
                members = [parent[rank] for rank in ranks]
                group = dist.new_group(members)
                if self._session.job.rank in members:
                    ours = group
            return ours

        return split_group

    def destroying(self, original: Function) -> Function:
        def destroy_process_group(group: Any = None) -> None:
            # The end of a group can hang or abort the process while peers are still on their way out of a collective.
            self._kept.append(list(distributed_c10d._world.pg_map))
            original(group)

        return destroy_process_group


def _on_cpu(device_type: Any) -> Any:
    return "cpu" if isinstance(device_type, str) and device_type.partition(":")[0] in TYPES else device_type


def _meshes(patches: Patches, module: ModuleType) -> None:
    patches.wrap(module, "init_device_mesh", _meshing)
    patches.wrap(module.DeviceMesh, "__init__", _constructing_mesh)


def _meshing(original: Function) -> Function:
    def init_device_mesh(device_type: str, *args: Any, **kwargs: Any) -> Any:
        kwargs.pop("backend_override", None)
        return original(_on_cpu(device_type), *args, **kwargs)

    return init_device_mesh


def _constructing_mesh(original: Function) -> Function:
    def initialize(self: Any, device_type: str, *args: Any, **kwargs: Any) -> None:
        original(self, _on_cpu(device_type), *args, **kwargs)

    return initialize
