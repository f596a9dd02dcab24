from dpcheck_intrinsics import (
    all_reduce,
    clip,
    constant,
    copy,
    local_rank,
    operation,
    rank as _rank,
    record,
    seed as _seed,
    start_group,
    unknown,
    world_size,
)

from torch.nn import Module
from torch.nn.utils import clip_grad_norm_, clip_grad_value_


class NativeScaler:
    """Calling it does backward, the clip, and the step."""

    state_dict_key = "amp_scaler"

    def __init__(self, *args, **kwargs):
        pass

    def __call__(
        self, loss, optimizer, clip_grad=None, clip_mode="norm", parameters=None, create_graph=False, need_update=True
    ):
        loss.backward()
        if need_update:
            if clip_grad is not None:
                dispatch_clip_grad(parameters, clip_grad, clip_mode)
            optimizer.step()

    def state_dict(self):
        return {}

    def load_state_dict(self, state_dict):
        pass


ApexScaler = NativeScaler


def dispatch_clip_grad(parameters, value, mode="norm", norm_type=2.0):
    clip(parameters, "value" if mode == "value" else "norm")


class ModelEma:
    """An average of the weights: they are the same on every rank, and so is it."""

    def __init__(self, model, decay=0.9999, device="", resume="", **kwargs):
        self.ema = copy(model)
        self.module = self.ema

    def update(self, model, step=None):
        pass

    def set(self, model):
        pass


ModelEmaV2 = ModelEma
ModelEmaV3 = ModelEma


class AverageMeter:
    def __init__(self):
        self.reset()

    def reset(self):
        self.val = 0
        self.avg = 0
        self.sum = 0
        self.count = 0

    def update(self, val, n=1):
        self.val = val
        self.sum = self.sum + val * n
        self.count = self.count + n
        self.avg = self.sum / self.count


def accuracy(output, target, topk=(1,)):
    """One percentage for each k: the mean over this rank's rows."""
    right = operation("argmax", [output, -1]) == target
    return [operation("mean", [right * 100.0]) for _ in topk]


def reduce_tensor(tensor, n):
    return all_reduce(operation("clone", [tensor]), "sum") / n


def distribute_bn(model, world_size, reduce=False):
    record("collective", None, name="all_reduce" if reduce else "broadcast", op="sum", group=None)


def random_seed(seed=42, rank=0):
    _seed("all", seed + rank)


def init_distributed_device(args):
    start_group("timm")
    args.distributed = True
    args.world_size = world_size()
    args.rank = _rank()
    args.local_rank = local_rank()
    return constant("device")


def is_primary(args, rank=0):
    return _rank() == 0


def is_distributed_env():
    return True


def unwrap_model(model):
    return getattr(model, "module", model)


def get_state_dict(model, unwrap_fn=unwrap_model):
    return unwrap_fn(model).state_dict()


class CheckpointSaver:
    def __init__(self, *args, **kwargs):
        pass

    def save_checkpoint(self, epoch, metric=None):
        return metric, epoch

    def save_recovery(self, *args, **kwargs):
        pass


def setup_default_logging(*args, **kwargs):
    pass


def update_summary(*args, **kwargs):
    pass


def get_outdir(*args, **kwargs):
    return constant("str")


def __getattr__(name):
    return lambda *args, **kwargs: unknown(*args)
