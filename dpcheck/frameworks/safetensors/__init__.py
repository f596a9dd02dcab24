from dpcheck_intrinsics import constant


def safe_open(*args, **kwargs):
    return constant()
