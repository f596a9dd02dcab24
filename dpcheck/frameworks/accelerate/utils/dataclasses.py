"""Settings of the Accelerator."""

from dpcheck_intrinsics import set_attributes


class DistributedType:
    NO = "NO"
    MULTI_CPU = "MULTI_CPU"
    MULTI_GPU = "MULTI_GPU"
    DEEPSPEED = "DEEPSPEED"
    FSDP = "FSDP"
    XLA = "XLA"
    TPU = "XLA"
    MEGATRON_LM = "MEGATRON_LM"


class _Settings:
    def __init__(self, *args, **kwargs):
        set_attributes(self, kwargs)

    def to_kwargs(self):
        return {}


class GradientAccumulationPlugin:
    def __init__(self, num_steps=1, adjust_scheduler=True, sync_with_dataloader=True, sync_each_batch=False):
        self.num_steps = num_steps


class DataLoaderConfiguration:
    def __init__(self, split_batches=False, dispatch_batches=None, even_batches=True, **kwargs):
        self.split_batches = split_batches
        self.dispatch_batches = dispatch_batches
        self.even_batches = even_batches


class ProjectConfiguration:
    def __init__(
        self, project_dir=None, logging_dir=None, automatic_checkpoint_naming=False, total_limit=None, **kwargs
    ):
        self.project_dir = project_dir
        self.logging_dir = logging_dir if logging_dir is not None else project_dir
        self.automatic_checkpoint_naming = automatic_checkpoint_naming
        self.total_limit = total_limit
        self.iteration = 0


class FullyShardedDataParallelPlugin:
    """Whether FSDP copies rank 0's weights is settled where the script is launched, unless it is written here."""

    def __init__(
        self, fsdp_version=1, sync_module_states=None, cpu_ram_efficient_loading=True, use_orig_params=True, **kwargs
    ):
        self.fsdp_version = fsdp_version
        self.use_orig_params = use_orig_params
        self.broadcasts = True
        if sync_module_states is False and cpu_ram_efficient_loading is False:
            self.broadcasts = False
        set_attributes(self, kwargs)

    def shard(self, model):
        from torch.distributed.fsdp import FullyShardedDataParallel

        return FullyShardedDataParallel(model, sync_module_states=self.broadcasts, use_orig_params=self.use_orig_params)

    def set_mixed_precision(self, *args, **kwargs):
        pass


class DeepSpeedPlugin(_Settings):
    deepspeed_config = {}


class MegatronLMPlugin(_Settings):
    pass


class DistributedDataParallelKwargs(_Settings):
    pass


class InitProcessGroupKwargs(_Settings):
    pass


class GradScalerKwargs(_Settings):
    pass


class AutocastKwargs(_Settings):
    pass


class ProfileKwargs(_Settings):
    pass


class FP8RecipeKwargs(_Settings):
    pass


class TorchDynamoPlugin(_Settings):
    pass


class BnbQuantizationConfig(_Settings):
    pass


class PrecisionType:
    NO = "no"
    FP8 = "fp8"
    FP16 = "fp16"
    BF16 = "bf16"


class DynamoBackend:
    NO = "NO"
    INDUCTOR = "INDUCTOR"


class LoggerType:
    ALL = "all"
    TENSORBOARD = "tensorboard"
    WANDB = "wandb"
    COMETML = "comet_ml"
