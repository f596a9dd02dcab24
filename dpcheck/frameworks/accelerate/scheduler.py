from dpcheck_intrinsics import record, world_size

from torch.optim.lr_scheduler import LRScheduler


class AcceleratedScheduler(LRScheduler):
    """Makes one step for each rank each time, unless loaders split their batches: it counts all ranks' batches."""

    def __init__(self, scheduler, accelerator):
        self.scheduler = scheduler
        self.accelerator = accelerator
        self.optimizer = scheduler.optimizer
        multiplies = accelerator.step_with_optimizer and not accelerator.split_batches
        record("prepare scheduler", scheduler, by="accelerate", multiplies=multiplies)

    def step(self, *args, **kwargs):
        if not self.accelerator.step_with_optimizer:
            self.scheduler.step(*args, **kwargs)
        elif self.accelerator.sync_gradients:
            if self.accelerator.split_batches:
                self.scheduler.step(*args, **kwargs)
            else:
                for _ in range(world_size()):
                    self.scheduler.step(*args, **kwargs)

    def get_last_lr(self):
        return self.scheduler.get_last_lr()

    def state_dict(self):
        return self.scheduler.state_dict()

    def load_state_dict(self, state):
        self.scheduler.load_state_dict(state)

    def __getattr__(self, name):
        return getattr(self.scheduler, name)
