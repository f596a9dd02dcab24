from torch.optim import Optimizer


class AcceleratedOptimizer(Optimizer):
    """Steps only where gradients are synchronized: on every n-th pass inside `accumulate`."""

    def __init__(self, optimizer, accelerator):
        self.optimizer = optimizer
        self.accelerator = accelerator

    def step(self, closure=None):
        if self.accelerator.sync_gradients:
            self.optimizer.step(closure)

    def zero_grad(self, set_to_none=True):
        if self.accelerator.sync_gradients:
            self.optimizer.zero_grad(set_to_none)

    @property
    def param_groups(self):
        return self.optimizer.param_groups

    @property
    def step_was_skipped(self):
        return False

    def add_param_group(self, group):
        self.optimizer.add_param_group(group)

    def state_dict(self):
        return self.optimizer.state_dict()

    def load_state_dict(self, state):
        self.optimizer.load_state_dict(state)

    def train(self):
        pass

    def eval(self):
        pass

    def __getattr__(self, name):
        return getattr(self.optimizer, name)
