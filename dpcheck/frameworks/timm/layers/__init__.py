from dpcheck_intrinsics import initialise

from torch import nn
from torch.nn import Module


class DropPath(nn.Identity):
    pass


def drop_path(x, *args, **kwargs):
    return x


def trunc_normal_(tensor, *args, **kwargs):
    return initialise(tensor)


def to_2tuple(x):
    return (x, x)


def convert_splitbn_model(module, *args, **kwargs):
    return module


def convert_sync_batchnorm(module, process_group=None):
    return nn.SyncBatchNorm.convert_sync_batchnorm(module)


class _Part(nn.Linear):
    pass


def __getattr__(name):
    if name[0].isupper():
        return _Part
    return lambda *args, **kwargs: args[0]
