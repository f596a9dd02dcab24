"""Temporary files: one folder for all, and names that no other process has."""

from dpcheck_intrinsics import constant, now

_folder = constant("str")
tempdir = None


class _Folder:
    def __init__(self, *args, **kwargs):
        self.name = mkdtemp()

    def __enter__(self):
        return self.name

    def __exit__(self, *exception):
        return None

    def cleanup(self):
        pass


class TemporaryDirectory(_Folder):
    pass


def gettempdir():
    return _folder


def mkdtemp(*args, **kwargs):
    return f"{_folder}/{now()}"


def mkstemp(*args, **kwargs):
    return 3, mkdtemp()


def mktemp(*args, **kwargs):
    return mkdtemp()


def NamedTemporaryFile(mode="w+b", *args, **kwargs):
    made = open(mkdtemp(), "r")
    made.name = mkdtemp()
    return made


TemporaryFile = SpooledTemporaryFile = NamedTemporaryFile


def __getattr__(name):
    return lambda *args, **kwargs: constant()
