from dpcheck_intrinsics import unknown


class Tuner:
    def __init__(self, trainer):
        self.trainer = trainer

    def lr_find(self, *args, **kwargs):
        return unknown()

    def scale_batch_size(self, *args, **kwargs):
        return unknown()
