from dpcheck_intrinsics import constant, seed as _seed


def set_seed(seed, deterministic=False):
    """Every random state, the same on every rank."""
    _seed("all", seed)


def enable_full_determinism(seed, warn_only=False):
    _seed("all", seed)


def get_last_checkpoint(folder):
    return constant("str")


class EvalPrediction:
    def __init__(self, predictions=None, label_ids=None, inputs=None):
        self.predictions = predictions
        self.label_ids = label_ids
        self.inputs = inputs
        setattr(self, "%tuple", ["predictions", "label_ids"])

    def __iter__(self):
        yield self.predictions
        yield self.label_ids


class PredictionOutput(EvalPrediction):
    metrics = {}


class IntervalStrategy:
    NO = "no"
    STEPS = "steps"
    EPOCH = "epoch"


EvaluationStrategy = IntervalStrategy
SaveStrategy = IntervalStrategy


class SchedulerType:
    LINEAR = "linear"
    COSINE = "cosine"
    CONSTANT = "constant"
    CONSTANT_WITH_WARMUP = "constant_with_warmup"
    POLYNOMIAL = "polynomial"


class TrainOutput:
    global_step = constant("int")
    training_loss = constant("float")
    metrics = {}

    def __iter__(self):
        yield self.global_step


def is_main_process(local_rank):
    return local_rank == 0


def speed_metrics(*args, **kwargs):
    return {}


def __getattr__(name):
    return lambda *args, **kwargs: constant()
