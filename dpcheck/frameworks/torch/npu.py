"""Another kind of accelerator than the one that the run is assumed to have."""

from dpcheck_intrinsics import constant


def is_available():
    return constant("bool")


def __getattr__(name):
    return lambda *args, **kwargs: constant()
