from dpcheck_intrinsics import operation


def __getattr__(name):
    return lambda waveform, *args, **kwargs: operation("rearrange", [waveform])
