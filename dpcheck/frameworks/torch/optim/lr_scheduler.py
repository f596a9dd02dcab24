from dpcheck_intrinsics import record


class LRScheduler:
    def __init__(self, optimizer, *args, **kwargs):
        self.optimizer = optimizer
        record("scheduler", self, arguments=args, options=kwargs)

    def step(self, *metrics):
        record("scheduler step", self, metrics=metrics)

    def get_last_lr(self):
        return [0.1]

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


_LRScheduler = LRScheduler


class StepLR(LRScheduler):
    pass


class MultiStepLR(LRScheduler):
    pass


class CosineAnnealingLR(LRScheduler):
    pass


class CosineAnnealingWarmRestarts(LRScheduler):
    pass


class LambdaLR(LRScheduler):
    pass


class LinearLR(LRScheduler):
    pass


class ConstantLR(LRScheduler):
    pass


class ExponentialLR(LRScheduler):
    pass


class PolynomialLR(LRScheduler):
    pass


class OneCycleLR(LRScheduler):
    pass


class CyclicLR(LRScheduler):
    pass


class SequentialLR(LRScheduler):
    pass


class ChainedScheduler(LRScheduler):
    pass


class ReduceLROnPlateau(LRScheduler):
    pass
