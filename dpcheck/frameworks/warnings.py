from contextlib import contextmanager


def warn(*args, **kwargs):
    pass


def filterwarnings(*args, **kwargs):
    pass


def simplefilter(*args, **kwargs):
    pass


@contextmanager
def catch_warnings(*args, **kwargs):
    yield []
