"""Terminal output: only what iterates matters."""

from rich import progress

__submodules__ = True


class _Shown:
    def __init__(self, *args, **kwargs):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        return None

    def __getattr__(self, name):
        return _nothing


def _nothing(*args, **kwargs):
    return None


def __getattr__(name):
    return _Shown
