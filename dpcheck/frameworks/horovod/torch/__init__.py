"""Horovod for torch. Its optimizer averages gradients over the ranks when it steps; it copies no weights by itself."""

from contextlib import contextmanager

from dpcheck_intrinsics import (
    all_gather,
    all_reduce,
    broadcast as _broadcast,
    broadcast_parameters as _broadcast_parameters,
    device_count,
    gather_stacked,
    group_started,
    local_rank as _local_rank,
    modules_of,
    operation,
    rank as _rank,
    record,
    start_group,
    unknown,
    world_size,
    wrap,
)

from torch import nn

Average = "avg"
Sum = "sum"
Adasum = "adasum"
Min = "min"
Max = "max"
Product = "product"
global_process_set = None


class Compression:
    none = None
    fp16 = "fp16"


class ProcessSet:
    def __init__(self, ranks=None):
        self.ranks = ranks

    def included(self):
        return True

    def rank(self):
        return _rank()

    def size(self):
        return unknown()


def add_process_set(ranks):
    return ProcessSet(ranks)


def init(*args, **kwargs):
    start_group("horovod")


def shutdown():
    pass


def is_initialized():
    return group_started()


def rank():
    return _rank()


def size():
    return world_size()


def local_rank():
    return _local_rank()


def local_size():
    return device_count()


def cross_rank():
    return _rank()


def cross_size():
    return world_size()


def nccl_built():
    return True


def mpi_threads_supported():
    return True


def DistributedOptimizer(
    optimizer,
    named_parameters=None,
    compression=None,
    backward_passes_per_step=1,
    op=Average,
    gradient_predivide_factor=1.0,
    num_groups=0,
    groups=None,
    sparse_as_dense=False,
    process_set=global_process_set,
):
    """Reduces the gradients of the optimizer's parameters during backward and waits for them when it steps."""
    for module in modules_of(optimizer.param_groups):
        wrap(module, module, "Horovod", broadcasts=False, averages=op != Sum, reduces_at="step")

    @contextmanager
    def skip_synchronize():
        yield

    optimizer.synchronize = lambda: record("synchronize", optimizer)
    optimizer.skip_synchronize = skip_synchronize
    return optimizer


def broadcast_parameters(params, root_rank=0):
    _broadcast_parameters(params)


def broadcast_optimizer_state(optimizer, root_rank=0, model=None):
    record("broadcast optimizer", optimizer)


def broadcast_object(obj, root_rank=0, name=None, process_set=None):
    holder = [obj]
    _broadcast(holder)
    return holder[0]


def allgather_object(obj, name=None):
    return all_gather(obj)


def _operator(average, op):
    if average is None:
        return Average if op is None else op
    return Average if average else Sum


def allreduce(
    tensor,
    average=None,
    name=None,
    compression=None,
    op=None,
    prescale_factor=1.0,
    postscale_factor=1.0,
    process_set=global_process_set,
):
    return all_reduce(tensor, _operator(average, op), process_set, in_place=False, differentiable=True)


def allreduce_(tensor, average=None, name=None, op=None, *args, process_set=global_process_set, **kwargs):
    return all_reduce(tensor, _operator(average, op), process_set)


def allreduce_async(tensor, average=None, name=None, op=None, *args, process_set=global_process_set, **kwargs):
    return all_reduce(tensor, _operator(average, op), process_set, in_place=False)


allreduce_async_ = allreduce_


def grouped_allreduce(tensors, *args, **kwargs):
    return [allreduce(tensor, *args, **kwargs) for tensor in tensors]


def grouped_allreduce_(tensors, *args, **kwargs):
    return [allreduce_(tensor, *args, **kwargs) for tensor in tensors]


def allgather(tensor, name=None, process_set=global_process_set):
    return gather_stacked(tensor, differentiable=True)


def allgather_async(tensor, name=None, process_set=global_process_set):
    return gather_stacked(tensor)


def broadcast(tensor, root_rank=0, name=None, process_set=global_process_set):
    result = operation("clone", [tensor])
    _broadcast(result)
    return result


def broadcast_(tensor, root_rank=0, name=None, process_set=global_process_set):
    _broadcast(tensor)
    return tensor


broadcast_async = broadcast
broadcast_async_ = broadcast_


def alltoall(tensor, *args, **kwargs):
    record("collective", tensor, name="alltoall", op="", group=None)
    return unknown(tensor)


def reducescatter(tensor, name=None, *args, **kwargs):
    record("collective", tensor, name="reduce_scatter", op="", group=None)
    return unknown(tensor)


def synchronize(handle):
    return handle


def poll(handle):
    return True


def join(device=-1):
    record("collective", None, name="join", op="", group=None)
    return unknown()


def barrier(process_set=global_process_set):
    record("collective", None, name="barrier", op="", group=None)


class SyncBatchNorm(nn.SyncBatchNorm):
    pass
