from dpcheck_intrinsics import operation


def __getattr__(name):
    return lambda image, *args, **kwargs: operation("relu", [image])
