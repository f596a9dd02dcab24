from dpcheck_intrinsics import wrap

from torch.distributed.device_mesh import spanned


class FSDPModule:
    pass


def fully_shard(module, *, mesh=None, **kwargs):
    """FSDP2: parameters become shards in place; gradients are averaged; nothing is broadcast."""
    wrap(module, module, "fully_shard", broadcasts=False, group=spanned(mesh), shards=True)
    return module


def register_fsdp_forward_method(module, name):
    pass
