"""Processes that a script starts by itself: a `Process` with a rank among its arguments is a rank."""

from torch.multiprocessing import Process, cpu_count, get_context, set_start_method

from dpcheck_intrinsics import unknown


class Pool:
    def __init__(self, *args, **kwargs):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        return None

    def map(self, function, iterable, *args):
        return [function(item) for item in iterable]

    imap = map
    imap_unordered = map

    def starmap(self, function, iterable, *args):
        return [function(*item) for item in iterable]

    def close(self):
        pass

    def join(self):
        pass


def Queue(*args):
    return []


def current_process():
    return unknown()


def __getattr__(name):
    return lambda *args, **kwargs: unknown(*args)
