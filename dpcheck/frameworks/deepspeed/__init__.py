"""DeepSpeed: `initialize` returns an engine that copies rank 0's weights, averages gradients and divides the loss."""

from contextlib import contextmanager

from dpcheck_intrinsics import certainly, kind_of, local_rank, option, record, start_group, unknown, wrap

from _training import every, share
from torch import nn
from torch.nn import Module
from torch.optim import AdamW, Optimizer
from torch.utils.data import DataLoader

from deepspeed import comm, ops, zero


def init_distributed(dist_backend="nccl", *args, **kwargs):
    start_group(dist_backend)


def add_config_arguments(parser):
    parser.add_argument("--deepspeed", default=False, action="store_true")
    parser.add_argument("--deepspeed_config", default=None, type=str)
    return parser


def initialize(
    args=None,
    model=None,
    optimizer=None,
    model_parameters=None,
    training_data=None,
    lr_scheduler=None,
    distributed_port=None,
    mpu=None,
    dist_init_required=None,
    collate_fn=None,
    config=None,
    mesh_param=None,
    config_params=None,
    **kwargs,
):
    start_group("deepspeed")
    engine = DeepSpeedEngine(model, optimizer, model_parameters, config if config is not None else config_params)
    if certainly(callable(lr_scheduler)):
        lr_scheduler = lr_scheduler(engine.optimizer)
    engine.lr_scheduler = lr_scheduler
    loader = None
    if training_data is not None:
        loader = engine.deepspeed_io(training_data, collate_fn=collate_fn)
    return engine, engine.optimizer, loader, lr_scheduler


class DeepSpeedEngine(Module):
    def __init__(self, model, optimizer=None, model_parameters=None, config=None):
        self.module = model
        self.config = config
        self.steps = self._setting("gradient_accumulation_steps", 1)
        self.require_backward_grad_sync = True
        if optimizer is None:
            optimizer = AdamW(model_parameters if model_parameters is not None else model.parameters())
        elif certainly(callable(optimizer)):
            optimizer = optimizer(model_parameters if model_parameters is not None else model.parameters())
        self.optimizer = optimizer
        self.lr_scheduler = None
        self.local_rank = local_rank()
        self.micro_steps = 0
        self.global_steps = 0
        wrap(self, model, "DeepSpeed", broadcasts=True)

    def _setting(self, name, default):
        if kind_of(self.config) == "mapping":
            return self.config.get(name, default)
        return option(default)

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    def backward(self, loss, retain_graph=False, scale_wrt_gas=True, **kwargs):
        if scale_wrt_gas and not certainly(self.steps == 1):
            loss = loss / self.steps
        loss.backward()
        return loss

    def step(self, lr_kwargs=None):
        """Steps, clears the gradients and advances the schedule where the accumulation is complete."""
        if self.is_gradient_accumulation_boundary():
            self.optimizer.step()
            self.optimizer.zero_grad()
            if self.lr_scheduler is not None:
                self.lr_scheduler.step()

    def is_gradient_accumulation_boundary(self):
        return every(self.steps)

    def set_gradient_accumulation_boundary(self, is_boundary):
        pass

    def gradient_accumulation_steps(self):
        return self.steps

    def train_micro_batch_size_per_gpu(self):
        return self._setting("train_micro_batch_size_per_gpu", None)

    def train_batch_size(self):
        return self._setting("train_batch_size", None)

    def deepspeed_io(self, dataset, batch_size=None, route=None, collate_fn=None, **kwargs):
        size = batch_size if batch_size is not None else self.train_micro_batch_size_per_gpu()
        return share(DataLoader(dataset, batch_size=size, shuffle=True, collate_fn=collate_fn), "DeepSpeed")

    @contextmanager
    def no_sync(self):
        self.require_backward_grad_sync = False
        yield
        self.require_backward_grad_sync = True

    def save_checkpoint(self, save_dir, tag=None, *args, **kwargs):
        """Every rank must call it: each writes its own part."""
        record("collective", None, name="barrier", op="", group=None)

    def load_checkpoint(self, load_dir, tag=None, *args, **kwargs):
        record("collective", None, name="barrier", op="", group=None)
        return None, {}

    def save_16bit_model(self, save_dir, *args, **kwargs):
        record("collective", None, name="all_gather", op="", group=None)

    def get_global_grad_norm(self):
        return unknown()

    def get_lr(self):
        return [0.1]

    def zero_optimization_stage(self):
        return option(0)

    def __getattr__(self, name):
        return getattr(self.module, name)


class PipelineEngine(DeepSpeedEngine):
    pass


class DeepSpeedConfig:
    def __init__(self, *args, **kwargs):
        pass
