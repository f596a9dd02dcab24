"""Rearranged tensors. A pattern whose first axis stays the first keeps the rows."""

from dpcheck_intrinsics import operation

from einops import layers


def _first(side):
    """The first axis, or a group of axes in parentheses."""
    side = side.strip()
    return side.split(")")[0] if side.startswith("(") else side.split(" ")[0]


def rearrange(tensor, pattern, **axes):
    left, right = pattern.split("->")
    if _first(left) == _first(right):
        return operation("unsqueeze", [tensor, 1])
    return operation("rearrange", [tensor])


def reduce(tensor, pattern, reduction, **axes):
    left, right = pattern.split("->")
    if right.strip() == "" or right.strip() == "()":
        return operation(reduction, [tensor])
    if _first(left) == _first(right):
        return operation(reduction, [tensor, -1])
    return operation("rearrange", [tensor])


def repeat(tensor, pattern, **axes):
    left, right = pattern.split("->")
    if _first(left) == _first(right):
        return operation("unsqueeze", [tensor, 1])
    return operation("rearrange", [tensor])


def einsum(*args):
    return operation("einsum", args)


def pack(tensors, pattern):
    return operation("cat", [tensors]), []


def unpack(tensor, shapes, pattern):
    return operation("unbind", [tensor])
