from lightning.pytorch.profilers import *
from lightning.pytorch.profilers import _Profiler


def __getattr__(name):
    return _Profiler
