"""torchaudio: recordings differ in length."""

from dpcheck_intrinsics import constant, read_from, unknown

from torchaudio import functional, transforms

__submodules__ = True


def load(uri, *args, **kwargs):
    return read_from(uri, "tensor"), constant("int")


def info(uri, *args, **kwargs):
    return constant()


def save(*args, **kwargs):
    pass


def __getattr__(name):
    return lambda *args, **kwargs: unknown(*args)
