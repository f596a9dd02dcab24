from dpcheck_intrinsics import read_from


def File(name, mode="r", *args, **kwargs):
    return read_from(name)
