"""Files copied and moved."""

from dpcheck_intrinsics import constant, record


def copy(src, dst, **kwargs):
    record("read", None, path=src)
    record("write", None, path=dst)
    return dst


copyfile = copy2 = copytree = copy


def move(src, dst, **kwargs):
    record("write", None, path=dst)
    return dst


def rmtree(path, *args, **kwargs):
    pass


def __getattr__(name):
    return lambda *args, **kwargs: constant()
