from dpcheck_intrinsics import kind_of, optimizer_made, optimizer_step, record

from torch.optim import lr_scheduler


class Optimizer:
    def __init__(self, params, *args, **kwargs):
        params = list(params)
        self.param_groups = params if kind_of(params[0]) == "mapping" else [{"params": params, "lr": 0.1}]
        self.state = {}
        optimizer_made(self, params)

    def step(self, closure=None):
        if closure is not None:
            closure()
        optimizer_step(self)

    def zero_grad(self, set_to_none=True):
        record("zero grad", self)

    def add_param_group(self, group):
        optimizer_made(self, group)

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        record("load optimizer", self)


class SGD(Optimizer):
    pass


class Adam(Optimizer):
    pass


class AdamW(Optimizer):
    pass


class Adagrad(Optimizer):
    pass


class Adadelta(Optimizer):
    pass


class Adamax(Optimizer):
    pass


class NAdam(Optimizer):
    pass


class RAdam(Optimizer):
    pass


class RMSprop(Optimizer):
    pass


class LBFGS(Optimizer):
    pass


class Adafactor(Optimizer):
    pass


class Muon(Optimizer):
    pass
