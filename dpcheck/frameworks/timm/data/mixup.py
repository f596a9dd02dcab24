from dpcheck_intrinsics import drawn, operation


class Mixup:
    """Mixes images and makes the labels soft: one row of class weights for each image."""

    def __init__(self, *args, **kwargs):
        self.mixup_enabled = True

    def __call__(self, x, target):
        share = drawn("numpy")
        return operation("relu", [x]) * share, operation("one_hot", [target]) * share


class FastCollateMixup(Mixup):
    pass
