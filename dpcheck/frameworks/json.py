"""What is read from a file is the same on every rank where the path is."""

from dpcheck_intrinsics import read_from


def load(file, **kwargs):
    return read_from(file)


def loads(text, **kwargs):
    return read_from(text)


def dump(value, file, **kwargs):
    pass


def dumps(value, **kwargs):
    return read_from(value, "str")


class JSONEncoder:
    pass


class JSONDecoder:
    pass


class JSONDecodeError(Exception):
    pass
