"""Figures that are written to files."""

from dpcheck_intrinsics import record, unknown


class Figure:
    def savefig(self, fname, *args, **kwargs):
        record("write", self, path=fname)

    def __getattr__(self, name):
        return lambda *args, **kwargs: unknown()


def savefig(fname, *args, **kwargs):
    record("write", None, path=fname)


def figure(*args, **kwargs):
    return Figure()


gcf = figure


def subplots(*args, **kwargs):
    return Figure(), unknown()


def __getattr__(name):
    return lambda *args, **kwargs: unknown()
