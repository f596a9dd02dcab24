from dpcheck_intrinsics import clip, unknown

from torch.nn.utils import rnn


def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    return clip(parameters, "norm")


def clip_grad_norm(parameters, max_norm, norm_type=2.0):
    return clip(parameters, "norm")


def clip_grad_value_(parameters, clip_value, foreach=None):
    clip(parameters, "value")


def get_total_norm(tensors, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    return unknown()


def clip_grads_with_norm_(parameters, max_norm, total_norm, foreach=None):
    """By a norm that was computed before, over whatever it was."""
    clip(parameters, "given")


def parameters_to_vector(parameters):
    return parameters


def weight_norm(module, *args, **kwargs):
    return module


def spectral_norm(module, *args, **kwargs):
    return module
