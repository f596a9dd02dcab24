from contextlib import contextmanager

from dpcheck_intrinsics import clip, record, wrap

from torch import nn
from torch.distributed.device_mesh import spanned
from torch.distributed.fsdp._fully_shard import fully_shard, register_fsdp_forward_method, FSDPModule


class ShardingStrategy:
    FULL_SHARD = "FULL_SHARD"
    SHARD_GRAD_OP = "SHARD_GRAD_OP"
    NO_SHARD = "NO_SHARD"
    HYBRID_SHARD = "HYBRID_SHARD"
    _HYBRID_SHARD_ZERO2 = "_HYBRID_SHARD_ZERO2"


class StateDictType:
    FULL_STATE_DICT = "full"
    SHARDED_STATE_DICT = "sharded"
    LOCAL_STATE_DICT = "local"


class _Options:
    def __init__(self, *args, **kwargs):
        pass


class MixedPrecision(_Options):
    pass


class CPUOffload(_Options):
    pass


class CPUOffloadPolicy(_Options):
    pass


class OffloadPolicy(_Options):
    pass


class MixedPrecisionPolicy(_Options):
    pass


class FullStateDictConfig(_Options):
    pass


class FullOptimStateDictConfig(_Options):
    pass


class ShardedStateDictConfig(_Options):
    pass


class BackwardPrefetch:
    BACKWARD_PRE = "pre"
    BACKWARD_POST = "post"


class FullyShardedDataParallel(nn.Module):
    """FSDP1. It averages gradients over the ranks; it copies no weights unless `sync_module_states` says so."""

    def __init__(
        self,
        module,
        process_group=None,
        sharding_strategy=None,
        cpu_offload=None,
        auto_wrap_policy=None,
        backward_prefetch=None,
        mixed_precision=None,
        ignored_modules=None,
        param_init_fn=None,
        device_id=None,
        sync_module_states=False,
        forward_prefetch=False,
        limit_all_gathers=True,
        use_orig_params=False,
        ignored_states=None,
        device_mesh=None,
    ):
        super().__init__()
        self.module = module
        wrap(self, module, "FSDP", broadcasts=sync_module_states, group=spanned(device_mesh) if process_group is None else process_group, shards=sharding_strategy != ShardingStrategy.NO_SHARD, use_orig_params=use_orig_params)

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    def state_dict(self, *args, **kwargs):
        record("collective", None, name="all_gather", said="state_dict of FSDP, which gathers the shards", group=None)
        return super().state_dict(*args, **kwargs)

    def clip_grad_norm_(self, max_norm, norm_type=2.0):
        record("collective", None, name="all_reduce", said="norm of all shards", group=None)
        return clip(self.parameters(), "sharded")

    @contextmanager
    def no_sync(self):
        self.require_backward_grad_sync = False
        yield
        self.require_backward_grad_sync = True

    @staticmethod
    @contextmanager
    def summon_full_params(module, *args, **kwargs):
        record("collective", None, name="all_gather", said="gathering of the shards", group=None)
        yield

    @staticmethod
    @contextmanager
    def state_dict_type(module, *args, **kwargs):
        yield

    @staticmethod
    def set_state_dict_type(module, *args, **kwargs):
        pass

    @staticmethod
    def optim_state_dict(model, optim, *args, **kwargs):
        record("collective", None, name="all_gather", said="optim_state_dict of FSDP, which gathers the shards", group=None)
        return {}

    full_optim_state_dict = optim_state_dict

    def __getattr__(self, name):
        return getattr(self.module, name)
