from dpcheck_intrinsics import read_from


class Loader:
    pass


FullLoader = Loader
SafeLoader = Loader
CLoader = Loader
CSafeLoader = Loader
Dumper = Loader
SafeDumper = Loader


def load(stream, Loader=None):
    return read_from(stream)


def safe_load(stream):
    return read_from(stream)


def full_load(stream):
    return read_from(stream)


def dump(data, stream=None, **kwargs):
    return read_from(data, "str")


safe_dump = dump
