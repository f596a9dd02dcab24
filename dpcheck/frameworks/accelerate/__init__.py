"""Hugging Face Accelerate 0.20 to 1.x."""

from accelerate.accelerator import Accelerator
from accelerate.data_loader import skip_first_batches
from accelerate.launchers import debug_launcher, notebook_launcher
from accelerate.state import AcceleratorState, PartialState
from accelerate.utils import (
    AutocastKwargs,
    DataLoaderConfiguration,
    DeepSpeedPlugin,
    DistributedDataParallelKwargs,
    DistributedType,
    FullyShardedDataParallelPlugin,
    GradScalerKwargs,
    InitProcessGroupKwargs,
    ProfileKwargs,
    find_executable_batch_size,
    infer_auto_device_map,
    load_checkpoint_in_model,
    synchronize_rng_states,
)
from accelerate.big_modeling import (
    cpu_offload,
    disk_offload,
    dispatch_model,
    init_empty_weights,
    init_on_device,
    load_checkpoint_and_dispatch,
)
