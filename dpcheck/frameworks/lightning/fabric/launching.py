"""How many processes train, and what wraps the module in each."""

from dpcheck_intrinsics import certainly, kind_of

from deepspeed import DeepSpeedEngine
from lightning.fabric.strategies import FSDPStrategy, DeepSpeedStrategy, SingleDeviceStrategy
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.nn.parallel import DistributedDataParallel


def is_single(devices, num_nodes, strategy, accelerator="auto"):
    """Is it known that one process trains on one device?"""
    if certainly(isinstance(strategy, SingleDeviceStrategy)) or certainly(strategy == "dp"):
        return True
    if not certainly(num_nodes == 1):
        return False
    if kind_of(devices) == "sequence":
        return certainly(len(devices) == 1)
    if certainly(accelerator == "cpu") and certainly(devices == "auto") and certainly(strategy == "auto"):
        return True
    return certainly(devices == 1) or certainly(devices == "1") or certainly(devices == 0)


def wrapped(module, strategy):
    if certainly(isinstance(strategy, FSDPStrategy)):
        return FullyShardedDataParallel(module, use_orig_params=True, sync_module_states=strategy.broadcasts)
    if certainly(isinstance(strategy, DeepSpeedStrategy)) or _starts(strategy, "deepspeed"):
        return DeepSpeedEngine(module, None, [], {})
    if _starts(strategy, "fsdp"):
        return FullyShardedDataParallel(module, use_orig_params=True)
    return DistributedDataParallel(module)


def _starts(strategy, name):
    return kind_of(strategy) == "text" and certainly(strategy.startswith(name))
