"""Paths: what is asked of a path is the same on every rank where the path is."""

from dpcheck_intrinsics import constant, read_from

sep = "/"


def join(path, *paths):
    for part in paths:
        path = f"{path}/{part}"
    return path


def _text(path):
    return read_from(path, "str")


basename = _text
dirname = _text
commonprefix = _text
relpath = _text


def abspath(path):
    return path


realpath = abspath
expanduser = abspath
expandvars = abspath
normpath = abspath


def exists(path):
    return read_from(path, "bool")


isfile = exists
isdir = exists
islink = exists
lexists = exists
isabs = exists


def getsize(path):
    return read_from(path, "int")


getmtime = getsize
getctime = getsize


def split(path):
    return _text(path), _text(path)


def splitext(path):
    return _text(path), _text(path)


def __getattr__(name):
    return lambda *args, **kwargs: constant()
