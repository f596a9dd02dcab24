from dpcheck_intrinsics import unknown

from bitsandbytes import optim


def __getattr__(name):
    return unknown()
