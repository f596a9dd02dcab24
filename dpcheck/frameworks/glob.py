"""A listing of files has no fixed order."""

from dpcheck_intrinsics import unordered


def glob(pathname, **kwargs):
    return unordered()


iglob = glob


def escape(pathname):
    return pathname
