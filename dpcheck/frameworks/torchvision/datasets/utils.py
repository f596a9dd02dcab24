from dpcheck_intrinsics import constant


def __getattr__(name):
    return lambda *args, **kwargs: constant()
