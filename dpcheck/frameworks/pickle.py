from dpcheck_intrinsics import read_from

HIGHEST_PROTOCOL = 5


def load(file, **kwargs):
    return read_from(file)


def loads(data, **kwargs):
    return read_from(data)


def dump(value, file, *args, **kwargs):
    pass


def dumps(value, *args, **kwargs):
    return read_from(value, "str")
