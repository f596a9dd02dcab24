"""Collectives that autograd sees: their backward adds up the ranks' gradients."""

from dpcheck_intrinsics import all_gather as _all_gather, all_reduce as _all_reduce, record, unknown

from torch.distributed import ReduceOp


def all_reduce(tensor, op=ReduceOp.SUM, group=None):
    return _all_reduce(tensor, op, group, differentiable=True, in_place=False)


def all_gather(tensor, group=None):
    return _all_gather(tensor, None, group, differentiable=True)


def broadcast(tensor, src, group=None):
    return unknown(tensor)


def all_to_all(output_tensor_list, input_tensor_list, group=None):
    record("collective", None, name="all_to_all", op="", group=group)
    return unknown(input_tensor_list)


def all_to_all_single(output, input, output_split_sizes=None, input_split_sizes=None, group=None):
    record("collective", None, name="all_to_all_single", op="", group=group)
    return unknown(input)
