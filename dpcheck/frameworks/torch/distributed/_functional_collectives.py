"""Functional collectives: out of place, without autograd unless the name says so."""

from dpcheck_intrinsics import all_reduce as _all_reduce, gather_stacked


def all_reduce(tensor, reduceOp="sum", group=None, tag=""):
    return _all_reduce(tensor, reduceOp, group, in_place=False)


def all_gather_tensor(tensor, gather_dim=0, group=None, tag=""):
    return gather_stacked(tensor)


def all_gather_tensor_autograd(tensor, gather_dim=0, group=None, tag=""):
    return gather_stacked(tensor, differentiable=True)


def wait_tensor(tensor):
    return tensor
