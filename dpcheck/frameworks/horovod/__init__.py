"""Horovod (all releases of the 0.2x line)."""

from dpcheck_intrinsics import launch


def run(func, args=(), kwargs=None, np=None, **options):
    launch(func, args, ranked=False, kwargs=kwargs)
