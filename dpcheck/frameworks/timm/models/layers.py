from timm.layers import *
from timm.layers import _Part


def __getattr__(name):
    return _Part
