from dpcheck_intrinsics import record, unknown


def save_image(tensor, fp, *args, **kwargs):
    record("write", tensor, path=fp)


def __getattr__(name):
    return lambda *args, **kwargs: unknown(*args)
