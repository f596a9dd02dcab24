from lightning.pytorch.plugins import *
from lightning.pytorch.plugins import _Plugin


def __getattr__(name):
    return _Plugin
