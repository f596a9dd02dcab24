from dpcheck_intrinsics import constant, local_rank, rank


class TrainerCallback:
    def __init__(self, *args, **kwargs):
        pass

    def __getattr__(self, name):
        return _nothing


def _nothing(*args, **kwargs):
    return None


class EarlyStoppingCallback(TrainerCallback):
    """Its metric is gathered from all ranks."""


class ProgressCallback(TrainerCallback):
    pass


class PrinterCallback(TrainerCallback):
    pass


class DefaultFlowCallback(TrainerCallback):
    pass


class TrainerControl:
    def __init__(self, *args, **kwargs):
        self.should_training_stop = False
        self.should_epoch_stop = False
        self.should_save = False
        self.should_evaluate = False
        self.should_log = False


class TrainerState:
    def __init__(self, *args, **kwargs):
        self.log_history = []
        self.best_metric = None
        self.best_model_checkpoint = None
        self.epoch = 0
        self.global_step = 0
        self.max_steps = constant("int")
        self.num_train_epochs = constant("int")

    is_world_process_zero = property(lambda self: rank() == 0)
    is_local_process_zero = property(lambda self: local_rank() == 0)
