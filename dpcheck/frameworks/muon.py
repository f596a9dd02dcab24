"""Optimizers."""

from torch.optim import Optimizer


class _Own(Optimizer):
    def train(self):
        pass

    def eval(self):
        pass


def __getattr__(name):
    return _Own
