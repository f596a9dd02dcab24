from transformers.optimization import *


class SchedulerType:
    LINEAR = "linear"
    CONSTANT = "constant"
