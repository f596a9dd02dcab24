"""Fabric: `setup` wraps a model, `setup_dataloaders` shares out loaders, the loop stays the user's."""

from contextlib import contextmanager

from dpcheck_intrinsics import (
    all_reduce,
    broadcast as _broadcast,
    certainly,
    clip,
    constant,
    escape,
    gather_stacked,
    launch,
    local_rank,
    rank,
    record,
    start_group,
    unknown,
    world_size,
)

from _training import distribute, every
from lightning.fabric.launching import is_single, wrapped
from lightning.fabric.utilities.seed import seed_everything as _seed_everything
from torch.nn.parallel import DistributedDataParallel


def seed_everything(seed=None, workers=False, verbose=True):
    return _seed_everything(seed, workers)


class Fabric:
    def __init__(
        self,
        *,
        accelerator="auto",
        strategy="auto",
        devices="auto",
        num_nodes=1,
        precision=None,
        plugins=None,
        callbacks=None,
        loggers=None,
    ):
        self.strategy_choice = strategy
        self.single = is_single(devices, num_nodes, strategy, accelerator)
        self.callbacks = callbacks
        self.loggers = [loggers]
        self.logger = unknown()
        self.launched = False

    device = property(lambda self: constant("device"))
    global_rank = property(lambda self: 0 if self.single else rank())
    local_rank = property(lambda self: 0 if self.single else local_rank())
    node_rank = property(lambda self: constant("int"))
    world_size = property(lambda self: 1 if self.single else world_size())
    is_global_zero = property(lambda self: True if self.single else rank() == 0)
    strategy = property(lambda self: self)

    def launch(self, function=None, *args, **kwargs):
        self._start()
        if function is not None:
            if not self.single:
                launch(function, [self, *args], ranked=False, kwargs=kwargs)
            else:
                function(self, *args, **kwargs)

    def _start(self):
        if not self.single and not self.launched:
            self.launched = True
            start_group("fabric")

    def run(self, *args, **kwargs):
        """LightningLite: a subclass's own program."""

    def setup(self, module, *optimizers, scheduler=None, move_to_device=True, **kwargs):
        made = self.setup_module(module)
        if not optimizers:
            return made
        if scheduler is not None:
            return (made, *optimizers, scheduler)
        return (made, *optimizers)

    def setup_module(self, module, move_to_device=True, **kwargs):
        self._start()
        if self.single:
            return module
        return wrapped(module, self.strategy_choice)

    def setup_optimizers(self, *optimizers):
        return optimizers[0] if len(optimizers) == 1 else optimizers

    def setup_dataloaders(self, *dataloaders, use_distributed_sampler=True, replace_sampler=True, move_to_device=True):
        made = dataloaders
        if not self.single and not certainly(not use_distributed_sampler) and not certainly(not replace_sampler):
            made = [distribute(loader, "Fabric") for loader in dataloaders]
        return made[0] if len(made) == 1 else made

    def backward(self, tensor, *args, model=None, **kwargs):
        tensor.backward()

    @contextmanager
    def no_backward_sync(self, module, enabled=True):
        if self.single:
            yield
        else:
            module.require_backward_grad_sync = not enabled
            yield
            module.require_backward_grad_sync = True

    def clip_gradients(self, module, optimizer, clip_val=None, max_norm=None, norm_type=2.0, error_if_nonfinite=True):
        if max_norm is None and clip_val is not None:
            return clip(module.parameters(), "value")
        return clip(module.parameters(), "sharded" if hasattr(module, "clip_grad_norm_") else "norm")

    def all_gather(self, data, group=None, sync_grads=False):
        return data if self.single else gather_stacked(data, differentiable=sync_grads)

    def all_reduce(self, data, group=None, reduce_op="mean"):
        if self.single:
            return data
        return all_reduce(data, "sum" if reduce_op == "sum" else "avg", in_place=False)

    reduce = all_reduce

    def broadcast(self, obj, src=0):
        holder = [obj]
        _broadcast(holder)
        return holder[0]

    def barrier(self, name=None):
        record("collective", None, name="barrier", op="", group=None)

    @contextmanager
    def autocast(self):
        yield

    @contextmanager
    def init_module(self, empty_init=None):
        yield

    @contextmanager
    def sharded_model(self):
        yield

    @contextmanager
    def init_tensor(self):
        yield

    @contextmanager
    def rank_zero_first(self, local=False):
        yield

    def to_device(self, obj):
        return obj

    def print(self, *args, **kwargs):
        pass

    def save(self, path, state, filter=None):
        """Every rank must call it; the main process writes."""
        record("collective", None, name="barrier", op="", group=None)

    def load(self, path, state=None, strict=True):
        record("collective", None, name="barrier", op="", group=None)
        return {}

    def load_raw(self, path, obj, strict=True):
        pass

    def call(self, hook_name, *args, **kwargs):
        escape(self.callbacks)

    def log(self, name, value, step=None):
        """Logs on the main process only."""

    def log_dict(self, metrics, step=None):
        """Logs on the main process only."""

    @staticmethod
    def seed_everything(seed=None, workers=None, verbose=True):
        return _seed_everything(seed)


LightningLite = Fabric
