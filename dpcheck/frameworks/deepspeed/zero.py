from contextlib import contextmanager


@contextmanager
def Init(*args, **kwargs):
    yield


@contextmanager
def GatheredParameters(params, modifier_rank=None, fwd_module=None, enabled=True):
    yield
