from dpcheck_intrinsics import unknown


def __getattr__(name):
    return lambda *args, **kwargs: unknown(*args)
