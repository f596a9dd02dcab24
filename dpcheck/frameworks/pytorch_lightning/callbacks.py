from lightning.pytorch.callbacks import *
from lightning.pytorch.callbacks import _Known


def __getattr__(name):
    return _Known
