from lightning.pytorch.loggers import *
from lightning.pytorch.loggers import _Known


def __getattr__(name):
    return _Known
