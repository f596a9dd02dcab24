"""Which process this is. The first of these objects starts the process group."""

from contextlib import contextmanager

from dpcheck_intrinsics import constant, local_rank, rank, record, start_group, world_size

from accelerate.utils.dataclasses import DistributedType

_started = [False]


def start():
    """Join the process group, unless the script has done so already."""
    if not _started[0]:
        _started[0] = True
        start_group("accelerate")


class PartialState:
    def __init__(self, cpu=False, **kwargs):
        start()

    process_index = property(lambda self: rank())
    num_processes = property(lambda self: world_size())
    local_process_index = property(lambda self: local_rank())
    is_main_process = property(lambda self: rank() == 0)
    is_local_main_process = property(lambda self: local_rank() == 0)
    is_last_process = property(lambda self: rank() == world_size() - 1)
    device = property(lambda self: constant("device"))
    default_device = device
    distributed_type = DistributedType.MULTI_GPU
    use_distributed = True
    initialized = True
    mixed_precision = "no"
    deepspeed_plugin = None
    debug = False

    def wait_for_everyone(self):
        record("collective", None, name="barrier", op="", group=None)

    def print(self, *args, **kwargs):
        pass

    @contextmanager
    def main_process_first(self):
        """Rank 0 goes ahead, the others wait: all of them execute the body."""
        yield

    local_main_process_first = main_process_first

    @contextmanager
    def split_between_processes(self, inputs, apply_padding=False):
        yield _part(inputs)

    def on_main_process(self, function=None):
        return _only(lambda: rank() == 0, function)

    def on_local_main_process(self, function=None):
        return _only(lambda: local_rank() == 0, function)

    def on_last_process(self, function=None):
        return _only(lambda: rank() == world_size() - 1, function)

    def on_process(self, function=None, process_index=None):
        return _only(lambda: rank() == process_index, function)

    def on_local_process(self, function=None, local_process_index=None):
        return _only(lambda: local_rank() == local_process_index, function)

    def set_device(self):
        pass

    def destroy_process_group(self, group=None):
        pass

    @classmethod
    def _reset_state(cls, *args):
        pass


class AcceleratorState(PartialState):
    pass


def is_initialized():
    return _started[0]


class GradientState:
    sync_gradients = True
    end_of_dataloader = constant("bool")
    remainder = constant("int")
    num_steps = 1


def _part(inputs):
    """This rank's slice of a list, dictionary or tensor."""
    per_rank = len(inputs) // world_size()
    start = rank() * per_rank
    return inputs[start : start + per_rank]


def _only(chosen, function):
    if function is None:
        return lambda function: _only(chosen, function)

    def wrapper(*args, **kwargs):
        if chosen():
            return function(*args, **kwargs)

    return wrapper
