"""The default group and its collectives."""

from dpcheck_intrinsics import (
    all_gather as _all_gather,
    all_reduce as _all_reduce,
    broadcast as _broadcast,
    group_started,
    local_rank,
    new_group as _new_group,
    rank as _rank,
    record,
    start_group,
    unknown,
    world_size as _world_size,
)


class ReduceOp:
    SUM = "sum"
    AVG = "avg"
    MAX = "max"
    MIN = "min"
    PRODUCT = "product"
    BAND = "band"
    BOR = "bor"


reduce_op = ReduceOp


class ProcessGroup:
    pass


class _Group:
    WORLD = None


group = _Group()
GroupMember = _Group()


class Work:
    def wait(self, timeout=None):
        pass

    def is_completed(self):
        return True

    def get_future(self):
        return self


def is_available():
    return True


def is_initialized():
    return group_started()


def is_torchelastic_launched():
    return True


def is_nccl_available():
    return True


def is_gloo_available():
    return True


def init_process_group(backend=None, init_method=None, timeout=None, world_size=-1, rank=-1, store=None, **kwargs):
    start_group(backend, rank, world_size)


def destroy_process_group(group=None):
    pass


def get_rank(group=None):
    return _rank()


def get_world_size(group=None):
    return _world_size()


def get_node_local_rank(fallback_rank=None):
    return local_rank()


def get_backend(group=None):
    return "nccl"


def get_global_rank(group, rank):
    return rank


def new_group(ranks=None, *args, **kwargs):
    made = ProcessGroup()
    made.ranks = ranks
    _new_group(made, ranks)
    return made


def new_subgroups(*args, **kwargs):
    made = ProcessGroup()
    made.ranks = "subgroups"
    _new_group(made, "subgroups")
    return made, [made]


def barrier(group=None, *args, **kwargs):
    record("collective", None, name="barrier", group=group)


def monitored_barrier(group=None, *args, **kwargs):
    record("collective", None, name="barrier", group=group)


def all_reduce(tensor, op=ReduceOp.SUM, group=None, async_op=False):
    _all_reduce(tensor, op, group)
    return Work()


def all_reduce_coalesced(tensors, op=ReduceOp.SUM, group=None, async_op=False):
    for tensor in tensors:
        _all_reduce(tensor, op, group)
    return Work()


def reduce(tensor, dst=0, op=ReduceOp.SUM, group=None, async_op=False):
    record("collective", tensor, name="reduce", group=group)
    return Work()


def broadcast(tensor, src=0, group=None, async_op=False):
    _broadcast(tensor, group, src=src)
    return Work()


def broadcast_object_list(object_list, src=0, group=None, device=None):
    _broadcast(object_list, group, name="broadcast_object_list", src=src)


def all_gather(tensor_list, tensor, group=None, async_op=False):
    _all_gather(tensor, tensor_list, group)
    return Work()


def all_gather_into_tensor(output_tensor, input_tensor, group=None, async_op=False):
    _all_gather(input_tensor, output_tensor, group)
    return Work()


_all_gather_base = all_gather_into_tensor


def all_gather_object(object_list, obj, group=None):
    _all_gather(obj, object_list, group, name="all_gather_object")


def gather(tensor, gather_list=None, dst=0, group=None, async_op=False):
    _all_gather(tensor, gather_list, group, name="gather")
    return Work()


def gather_object(obj, object_gather_list=None, dst=0, group=None):
    record("collective", obj, name="gather_object", group=group)


def scatter(tensor, scatter_list=None, src=0, group=None, async_op=False):
    record("collective", tensor, name="scatter", group=group, src=src)
    return Work()


def reduce_scatter(output, input_list, op=ReduceOp.SUM, group=None, async_op=False):
    record("collective", output, name="reduce_scatter", group=group)
    return Work()


reduce_scatter_tensor = reduce_scatter


def all_to_all(output_tensor_list, input_tensor_list, group=None, async_op=False):
    record("collective", None, name="all_to_all", op="", group=group)
    for tensor in output_tensor_list:
        tensor.copy_(unknown(input_tensor_list))
    return Work()


def all_to_all_single(output, input, output_split_sizes=None, input_split_sizes=None, group=None, async_op=False):
    record("collective", None, name="all_to_all_single", op="", group=group)
    output.copy_(unknown(input))
    return Work()


def send(tensor, dst, group=None, tag=0):
    pass


def recv(tensor, src=None, group=None, tag=0):
    return unknown()


def __getattr__(name):
    return lambda *args, **kwargs: unknown(*args)
