from dpcheck_intrinsics import constant

from torch.optim.lr_scheduler import LRScheduler


class Scheduler(LRScheduler):
    def step(self, epoch=None, metric=None):
        super().step(epoch) if metric is None else super().step(epoch, metric)

    def step_update(self, num_updates, metric=None):
        super().step(num_updates)


def create_scheduler(args, optimizer, **kwargs):
    return Scheduler(optimizer), constant("int")


def create_scheduler_v2(optimizer, *args, **kwargs):
    return Scheduler(optimizer, *args, **kwargs), constant("int")


def scheduler_kwargs(cfg):
    return {}


def __getattr__(name):
    return Scheduler
