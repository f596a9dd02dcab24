from dpcheck_intrinsics import constant, read_from


def read(file, *args, **kwargs):
    return read_from(file, "tensor"), constant("int")


def write(*args, **kwargs):
    pass


def info(file):
    return read_from(file)
