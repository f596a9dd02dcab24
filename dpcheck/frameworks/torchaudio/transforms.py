from dpcheck_intrinsics import operation

from torch.nn import Module


class _Transform(Module):
    def __init__(self, *args, **kwargs):
        pass

    def __call__(self, waveform, *args, **kwargs):
        return operation("rearrange", [waveform])


def __getattr__(name):
    return _Transform
