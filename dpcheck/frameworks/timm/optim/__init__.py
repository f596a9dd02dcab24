from dpcheck_intrinsics import certainly

from torch.nn import Module
from torch.optim import AdamW, Optimizer


def _parameters(model_or_params):
    return model_or_params.parameters() if certainly(isinstance(model_or_params, Module)) else model_or_params


def create_optimizer(args, model, filter_bias_and_bn=True):
    return AdamW(_parameters(model))


def create_optimizer_v2(model_or_params, *args, **kwargs):
    return AdamW(_parameters(model_or_params))


def optimizer_kwargs(cfg):
    return {}


def param_groups_weight_decay(model, weight_decay=1e-5, no_weight_decay_list=()):
    return [{"params": model.parameters()}]


class Lookahead(Optimizer):
    def __init__(self, base_optimizer, *args, **kwargs):
        self.base_optimizer = base_optimizer
        self.param_groups = base_optimizer.param_groups

    def step(self, closure=None):
        self.base_optimizer.step(closure)

    def zero_grad(self, set_to_none=True):
        self.base_optimizer.zero_grad()


def __getattr__(name):
    return AdamW
