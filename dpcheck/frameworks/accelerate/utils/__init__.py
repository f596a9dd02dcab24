"""Helpers of Accelerate that do something across ranks, with seeds or with models; others leave things as they are."""

from contextlib import contextmanager

from dpcheck_intrinsics import (
    all_gather,
    all_reduce,
    broadcast as _broadcast,
    constant,
    gather_stacked,
    kind_of,
    operation,
    option,
    rank,
    record,
    seed as _seed,
)

from accelerate.utils.dataclasses import (
    AutocastKwargs,
    BnbQuantizationConfig,
    DataLoaderConfiguration,
    DeepSpeedPlugin,
    DistributedDataParallelKwargs,
    DistributedType,
    DynamoBackend,
    FP8RecipeKwargs,
    FullyShardedDataParallelPlugin,
    GradScalerKwargs,
    GradientAccumulationPlugin,
    InitProcessGroupKwargs,
    LoggerType,
    MegatronLMPlugin,
    PrecisionType,
    ProfileKwargs,
    ProjectConfiguration,
    TorchDynamoPlugin,
)


def set_seed(seed, device_specific=False, deterministic=False):
    if device_specific:
        seed = seed + rank()
    _seed("all", seed)


def synchronize_rng_states(rng_types=None, generator=None):
    pass


def gather(tensor):
    return gather_stacked(tensor)


def gather_object(object):
    gathered = all_gather(object)
    if kind_of(object) == "sequence":
        return [item for one in gathered for item in one]
    return gathered


def reduce(tensor, reduction="mean", scale=1.0):
    return all_reduce(tensor, "sum" if reduction == "sum" else "avg", in_place=False)


def broadcast(tensor, from_process=0):
    result = operation("clone", [tensor])
    _broadcast(result)
    return result


def broadcast_object_list(object_list, from_process=0):
    _broadcast(object_list)
    return object_list


def pad_across_processes(tensor, dim=0, pad_index=0, pad_first=False):
    record("collective", tensor, name="all_gather", op="", group=None, said="padding, which gathers the sizes")
    return operation("pad_across_ranks", [tensor])


def wait_for_everyone():
    record("collective", None, name="barrier", op="", group=None)


def send_to_device(tensor, device, *args, **kwargs):
    return tensor


def extract_model_from_parallel(model, *args, **kwargs):
    return getattr(model, "module", model)


def find_executable_batch_size(function=None, starting_batch_size=128, **kwargs):
    """Calls the function with a batch size that fits: the first one, as far as anyone knows."""
    if function is None:
        return lambda function: find_executable_batch_size(function, starting_batch_size)
    return lambda *args, **more: function(option(starting_batch_size), *args, **more)


def save(*args, **kwargs):
    """Writes on the main process only."""


def load_checkpoint_in_model(model, checkpoint, *args, **kwargs):
    pass


def infer_auto_device_map(*args, **kwargs):
    return {}


def write_basic_config(*args, **kwargs):
    pass


@contextmanager
def patch_environment(**kwargs):
    yield


@contextmanager
def tqdm_main_process_only():
    yield


def __getattr__(name):
    if name.startswith("is_"):
        return lambda *args, **kwargs: constant("bool")
    return lambda *args, **kwargs: constant()
