"""Lightning: its trainer and Fabric run in the processes of the run, on CPU, in one precision."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterable
from types import ModuleType
from typing import Any

from dpcheck.verify.session import Session
from dpcheck.verify.shim.importing import AdaptingFinder

_CONNECTORS = {
    "lightning.pytorch.trainer.connectors.accelerator_connector": "_AcceleratorConnector",
    "pytorch_lightning.trainer.connectors.accelerator_connector": "_AcceleratorConnector",
    "lightning.fabric.connector": "_Connector",
    "lightning_fabric.connector": "_Connector",
}
_STARTING = ("dp", "ddp_spawn", "ddp_fork", "ddp_notebook")
"""Strategies that start processes of their own, or use one for all devices; variants end in their options."""


def install(session: Session, finder: AdaptingFinder) -> None:
    for module_name, class_name in _CONNECTORS.items():
        finder.adapt(module_name, functools.partial(_adapt, session, class_name))


def _adapt(session: Session, class_name: str, module: ModuleType) -> None:
    connector = getattr(module, class_name, None)
    if connector is None:
        return
    construct, check = connector.__init__, connector._check_strategy_and_fallback
    signature = inspect.signature(construct)

    def initialize(*args: Any, **kwargs: Any) -> None:
        bound = signature.bind(*args, **kwargs)
        arguments = bound.arguments
        asked = {
            name: arguments[name] for name in ("accelerator", "devices", "strategy", "precision") if name in arguments
        }
        if session.job.device == "cpu":
            arguments["accelerator"] = "cpu"
        arguments["devices"] = session.job.world_size
        arguments["num_nodes"] = 1
        # The rest of the shim raises the precision, and FSDP knows no other here.
        arguments["precision"] = "32-true"
        arguments["strategy"] = _strategy(module, arguments.get("strategy", "auto"))
        if arguments.get("plugins") is not None:
            arguments["plugins"] = _plugins(module, arguments["plugins"])
        what = ", ".join(f"{name}={value!r}" for name, value in asked.items())
        session.note(
            "lightning",
            f"Lightning ran in the {session.job.world_size} processes of the run and in one precision, not with {what}",
            session.here(),
        )
        construct(*bound.args, **bound.kwargs)

    def check_as_gpu(self: Any) -> None:
        """FSDP is refused elsewhere than on GPUs."""
        flag = self._accelerator_flag
        if flag == "cpu" and "fsdp" in _name_of(self._strategy_flag):
            self._accelerator_flag = "cuda"
        try:
            check(self)
        finally:
            self._accelerator_flag = flag

    connector.__init__ = initialize
    connector._check_strategy_and_fallback = check_as_gpu


def _name_of(strategy: Any) -> str:
    return (strategy if isinstance(strategy, str) else type(strategy).__name__).lower()


def _strategy(module: ModuleType, strategy: Any) -> Any:
    if isinstance(strategy, str):
        if strategy == "auto":
            return "ddp"
        for name in _STARTING:
            if strategy == name:
                return "ddp"
            if strategy.startswith(f"{name}_find_unused_parameters"):
                return "ddp" + strategy.removeprefix(name)
        return strategy
    if strategy is None or _name_of(strategy) == "singledevicestrategy":
        return "ddp"
    _on_cpu(module, strategy)
    return strategy


def _on_cpu(module: ModuleType, strategy: Any) -> None:
    """What an instance was given for GPUs."""
    for name in ("_accelerator", "_precision_plugin", "_precision", "cluster_environment", "_cluster_environment"):
        if name in vars(strategy):
            setattr(strategy, name, None)
    if "_parallel_devices" in vars(strategy):
        strategy._parallel_devices = None
    if "_process_group_backend" in vars(strategy):
        strategy._process_group_backend = None
    if getattr(strategy, "_start_method", "popen") != "popen":
        strategy._start_method = "popen"


def _plugins(module: ModuleType, plugins: Any) -> list[Any]:
    """Without those that choose a precision or a cluster."""
    given = plugins if isinstance(plugins, Iterable) and not isinstance(plugins, str) else [plugins]
    dropped = tuple(
        kind for name in ("Precision", "ClusterEnvironment") if isinstance(kind := getattr(module, name, None), type)
    )
    return [plugin for plugin in given if not isinstance(plugin, dropped)]
