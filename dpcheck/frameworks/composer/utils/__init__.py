from dpcheck_intrinsics import constant

from composer.utils import dist, reproducibility


def get_device(*args):
    return constant("device")


def __getattr__(name):
    return lambda *args, **kwargs: constant()
