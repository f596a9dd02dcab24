"""MosaicML Composer: a trainer that wraps in DDP (or FSDP) and leaves the sharding of data to the script."""

from composer.models import ComposerClassifier, ComposerModel, HuggingFaceModel
from composer.trainer import Trainer
from dpcheck_intrinsics import unknown

from composer.core import Callback, DataSpec

from composer import utils

__submodules__ = True


class Time:
    def __init__(self, *args, **kwargs):
        pass


class _Part(Callback):
    """An algorithm, logger or setting of the library."""


def __getattr__(name):
    if name[0].isupper():
        return _Part
    return lambda *args, **kwargs: unknown(*args)
