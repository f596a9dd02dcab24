from contextlib import contextmanager

from dpcheck_intrinsics import broadcast_parameters, reduce_gradients, wrap

from torch import nn
from torch.nn import Module


class DistributedDataParallel(Module):
    """Copies rank 0's weights when it is made, and averages gradients during backward."""

    def __init__(self, module, message_size=10000000, delay_allreduce=False, shared_param=None, *args, **kwargs):
        super().__init__()
        self.module = module
        self.require_backward_grad_sync = True
        wrap(self, module, "apex DDP", broadcasts=True)

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)


class Reducer:
    """Broadcasts the parameters of a module when it is made, and averages gradients when `reduce` is called."""

    def __init__(self, module_or_grads_list):
        self.module = module_or_grads_list
        if isinstance(module_or_grads_list, Module):
            broadcast_parameters(module_or_grads_list.parameters())

    def reduce(self):
        parameters = self.module.parameters() if isinstance(self.module, Module) else self.module
        reduce_gradients(parameters, "mean")


class SyncBatchNorm(nn.SyncBatchNorm):
    pass


def convert_syncbn_model(module, process_group=None, channel_last=False):
    return nn.SyncBatchNorm.convert_sync_batchnorm(module)


def create_syncbn_process_group(group_size):
    return None


class LARC:
    def __init__(self, optimizer, trust_coefficient=0.02, clip=True, eps=1e-8):
        self.optim = optimizer

    def step(self):
        self.optim.step()

    def zero_grad(self):
        self.optim.zero_grad()

    def __getattr__(self, name):
        return getattr(self.optim, name)
