"""Mixed precision: what it scales up before backward it scales down before the step."""

from contextlib import contextmanager


def initialize(models, optimizers=None, *args, **kwargs):
    if optimizers is None:
        return models
    return models, optimizers


@contextmanager
def scale_loss(loss, optimizers, *args, **kwargs):
    yield loss


def master_params(optimizer):
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def init(*args, **kwargs):
    pass


def state_dict(*args, **kwargs):
    return {}


def load_state_dict(state_dict):
    pass


def half_function(function):
    return function


def float_function(function):
    return function
