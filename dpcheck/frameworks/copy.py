from dpcheck_intrinsics import copy as _copy


def copy(x):
    return _copy(x)


def deepcopy(x, memo=None):
    return _copy(x)
