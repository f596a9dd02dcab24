from dpcheck_intrinsics import constant

from transformers.trainer_callback import TrainerCallback


class HfDeepSpeedConfig:
    def __init__(self, *args, **kwargs):
        pass


def is_deepspeed_zero3_enabled():
    return constant("bool")


def __getattr__(name):
    if name.endswith("Callback"):
        return TrainerCallback
    return lambda *args, **kwargs: constant()
