from torch import optim
from torch.optim.lr_scheduler import LambdaLR


class AdamW(optim.AdamW):
    pass


class Adafactor(optim.Optimizer):
    pass


class AdafactorSchedule(LambdaLR):
    pass


def get_scheduler(name, optimizer, num_warmup_steps=None, num_training_steps=None, scheduler_specific_kwargs=None):
    return LambdaLR(optimizer, num_warmup_steps=num_warmup_steps, num_training_steps=num_training_steps)


def get_constant_schedule(optimizer, last_epoch=-1):
    return LambdaLR(optimizer)


def get_constant_schedule_with_warmup(optimizer, num_warmup_steps, last_epoch=-1):
    return LambdaLR(optimizer, num_warmup_steps=num_warmup_steps)


def get_linear_schedule_with_warmup(optimizer, num_warmup_steps, num_training_steps, last_epoch=-1):
    return LambdaLR(optimizer, num_warmup_steps=num_warmup_steps, num_training_steps=num_training_steps)


def get_cosine_schedule_with_warmup(optimizer, num_warmup_steps, num_training_steps, num_cycles=0.5, last_epoch=-1):
    return LambdaLR(optimizer, num_warmup_steps=num_warmup_steps, num_training_steps=num_training_steps)


get_cosine_with_hard_restarts_schedule_with_warmup = get_cosine_schedule_with_warmup
get_polynomial_decay_schedule_with_warmup = get_cosine_schedule_with_warmup
get_inverse_sqrt_schedule = get_constant_schedule_with_warmup
get_wsd_schedule = get_cosine_schedule_with_warmup
