from dpcheck_intrinsics import (
    accepts,
    all_reduce,
    broadcast as _broadcast,
    certainly,
    clip,
    constant,
    counter,
    device_count,
    each,
    escape,
    gather_stacked,
    kind_of,
    local_rank,
    module_call,
    no_grad,
    rank,
    record,
    start_group,
    unknown,
    world_size,
)

from _training import advance, distribute, every
from lightning.pytorch.callbacks import Callback, ModelCheckpoint
from lightning.pytorch.datamodule import LightningDataModule
from lightning.pytorch.loggers import Logger
from lightning.pytorch.running import begin
from lightning.fabric.launching import is_single, wrapped
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau


class Trainer:
    def __init__(
        self,
        *args,
        accelerator="auto",
        strategy="auto",
        devices="auto",
        num_nodes=1,
        precision=None,
        logger=None,
        callbacks=None,
        max_epochs=None,
        max_steps=-1,
        accumulate_grad_batches=1,
        gradient_clip_val=None,
        gradient_clip_algorithm=None,
        sync_batchnorm=False,
        use_distributed_sampler=True,
        replace_sampler_ddp=True,
        gpus=None,
        distributed_backend=None,
        default_root_dir=None,
        limit_train_batches=1.0,
        **kwargs,
    ):
        self.strategy_choice = strategy if distributed_backend is None else distributed_backend
        self.single = is_single(devices if gpus is None else gpus, num_nodes, self.strategy_choice, accelerator)
        self.callbacks = callbacks if kind_of(callbacks) == "sequence" else [] if callbacks is None else [callbacks]
        self.max_epochs = max_epochs
        self.max_steps = max_steps
        self.accumulate_grad_batches = accumulate_grad_batches
        self.gradient_clip_val = gradient_clip_val
        self.gradient_clip_algorithm = gradient_clip_algorithm
        self.sync_batchnorm = sync_batchnorm
        self.distributes = not (certainly(not use_distributed_sampler) or certainly(not replace_sampler_ddp))
        self.num_nodes = num_nodes
        self.precision = precision
        self.logger = Logger() if logger is None or kind_of(logger) != "object" else logger
        self.loggers = [self.logger]
        self.default_root_dir = default_root_dir
        self.log_dir = default_root_dir
        self.checkpoint_callback = ModelCheckpoint()
        self.callback_metrics = {}
        self.logged_metrics = self.callback_metrics
        self.progress_bar_metrics = {}
        self.current_epoch = 0
        self.global_step = 0
        self.should_stop = False
        self.optimizers = []
        self.schedulers = []
        self.datamodule = None
        self.sanity_checking = False
        self.training = True
        self.fast_dev_run = False
        self.strategy = _Strategy()
        self.accelerator = _Strategy()
        self.estimated_stepping_batches = constant("int")
        self.num_training_batches = constant("int")
        self.num_val_batches = [constant("int")]
        self.train_dataloader = None
        self.val_dataloaders = None
        begin(self)

    global_rank = property(lambda self: 0 if self.single else rank())
    local_rank = property(lambda self: 0 if self.single else local_rank())
    world_size = property(lambda self: 1 if self.single else world_size())
    is_global_zero = property(lambda self: True if self.single else rank() == 0)
    num_devices = property(lambda self: device_count())
    num_gpus = property(lambda self: device_count())
    device_ids = property(lambda self: [constant("int")])
    model = property(lambda self: self.wrapper)
    lightning_module = property(lambda self: self.module)
    early_stopping_callback = None
    interrupted = False

    # Training.

    def fit(
        self,
        model,
        train_dataloaders=None,
        val_dataloaders=None,
        datamodule=None,
        ckpt_path=None,
        train_dataloader=None,
        **kwargs,
    ):
        self._begin(model)
        if train_dataloaders is None:
            train_dataloaders = train_dataloader
        if certainly(isinstance(train_dataloaders, LightningDataModule)):
            train_dataloaders, datamodule = None, train_dataloaders
        self.datamodule = datamodule
        self._prepare(model, "fit")
        if certainly(self.sync_batchnorm):
            record("sync batchnorm", model)
        self.wrapper = model if self.single else wrapped(model, self.strategy_choice)
        self.optimizers, self.schedulers, self.monitors = _configured(model.configure_optimizers())
        train = self._loader(train_dataloaders, "train_dataloader")
        val = self._loader(val_dataloaders, "val_dataloader")
        self.train_dataloader, self.val_dataloaders = train, val
        self._call("on_fit_start")
        self._call("on_train_start")
        model.train()
        for epoch in range(self.max_epochs if self.max_epochs is not None else constant("int")):
            self.current_epoch = epoch
            _advance(train, epoch)
            self._call("on_train_epoch_start")
            model.on_epoch_start()
            outputs = []
            for batch in _batches(train):
                self._training_batch(batch, counter(), outputs)
            if val is not None:
                self._evaluate(val, "validation")
            model.training_epoch_end(outputs)
            model.on_epoch_end()
            self._call("on_train_epoch_end")
            for scheduler, monitor in zip(self.schedulers, self.monitors):
                metric = None
                if monitor is not None:
                    metric = self.callback_metrics.get(monitor, unknown())
                elif certainly(isinstance(scheduler, ReduceLROnPlateau)):
                    metric = unknown()
                model.lr_scheduler_step(scheduler, metric)
            if self.should_stop:
                break
        self._call("on_train_end")
        self._call("on_fit_end")
        self._end(model, "fit")

    def _training_batch(self, batch, index, outputs):
        model = self.module
        batch = self._transferred(batch)
        self.global_step = index
        self._call("on_train_batch_start", batch, index)
        if certainly(not model.automatic_optimization):
            output = module_call(self.wrapper, model.training_step, [batch, index], {})
        else:
            output = None
            for position, optimizer in enumerate(self.optimizers):
                output = self._automatic(optimizer, position, batch, index)
        outputs.append(output)
        self._call("on_train_batch_end", output, batch, index)

    def _automatic(self, optimizer, position, batch, index):
        """Forward and backward on every batch; the optimizer steps on every n-th."""
        model = self.module
        kwargs = {}
        if certainly(accepts(model.training_step, "optimizer_idx")):
            kwargs["optimizer_idx"] = position
        last = every(self.accumulate_grad_batches)
        if not self.single:
            self.wrapper.require_backward_grad_sync = last
        output = module_call(self.wrapper, model.training_step, [batch, index], kwargs)
        output = model.training_step_end(output)
        loss = each(_loss_of, output)
        self._call("on_before_zero_grad", optimizer)
        if certainly(each(kind_of, loss) == "unknown"):
            self._backward(loss)
        elif loss is not None:
            self._backward(loss)
        if last:
            self._call("on_before_optimizer_step", optimizer)
            if self.gradient_clip_val is not None:
                model.configure_gradient_clipping(optimizer, self.gradient_clip_val, self.gradient_clip_algorithm)
            given = {"optimizer_idx": position} if certainly(accepts(model.optimizer_step, "optimizer_idx")) else {}
            model.optimizer_step(self.current_epoch, index, optimizer, optimizer_closure=lambda: loss, **given)
            model.optimizer_zero_grad(self.current_epoch, index, optimizer)
        if not self.single:
            self.wrapper.require_backward_grad_sync = True
        return output

    def _backward(self, loss):
        if not certainly(self.accumulate_grad_batches == 1):
            loss = loss / self.accumulate_grad_batches
        self._call("on_before_backward", loss)
        self.module.backward(loss)
        self._call("on_after_backward")

    def clip(self, optimizer, algorithm=None):
        how = "value" if algorithm == "value" else "sharded" if hasattr(self.wrapper, "clip_grad_norm_") else "norm"
        clip(optimizer.param_groups, how)

    # Evaluation.

    def validate(
        self, model=None, dataloaders=None, ckpt_path=None, verbose=True, datamodule=None, val_dataloaders=None
    ):
        return self._evaluation(
            model,
            dataloaders if val_dataloaders is None else val_dataloaders,
            datamodule,
            "validate",
            "val_dataloader",
            "validation",
        )

    def test(self, model=None, dataloaders=None, ckpt_path=None, verbose=True, datamodule=None, test_dataloaders=None):
        return self._evaluation(
            model,
            dataloaders if test_dataloaders is None else test_dataloaders,
            datamodule,
            "test",
            "test_dataloader",
            "test",
        )

    def predict(self, model=None, dataloaders=None, datamodule=None, return_predictions=None, ckpt_path=None):
        return unknown()

    def _evaluation(self, model, dataloaders, datamodule, stage, hook, name):
        if model is not None:
            self._begin(model)
            self.wrapper = model
        if certainly(isinstance(dataloaders, LightningDataModule)):
            dataloaders, datamodule = None, dataloaders
        if datamodule is not None:
            self.datamodule = datamodule
        self._prepare(self.module, stage)
        loader = self._loader(dataloaders, hook)
        if loader is not None:
            self._evaluate(loader, name)
        self._end(self.module, stage)
        return [self.callback_metrics]

    def _evaluate(self, loader, name):
        model = self.module
        before = no_grad(True)
        model.eval()
        self._call(f"on_{name}_start")
        self._call(f"on_{name}_epoch_start")
        step = getattr(model, f"{name}_step")
        outputs = []
        for batch in _batches(loader):
            batch = self._transferred(batch)
            index = counter()
            self._call(f"on_{name}_batch_start", batch, index, 0)
            output = module_call(
                model, step, [batch, index], {"dataloader_idx": 0} if certainly(accepts(step, "dataloader_idx")) else {}
            )
            outputs.append(output)
            self._call(f"on_{name}_batch_end", output, batch, index, 0)
        getattr(model, f"{name}_epoch_end")(outputs)
        self._call(f"on_{name}_epoch_end")
        self._call(f"on_{name}_end")
        model.train()
        no_grad(before)

    # Around.

    def _begin(self, model):
        begin(self)
        self.module = model
        if not self.single:
            start_group("lightning")
        self.active = list(self.callbacks) + list(model.configure_callbacks())

    def _prepare(self, model, stage):
        """One process a node downloads, the others wait for it; then each sets up its own."""
        if self.datamodule is not None:
            if local_rank() == 0:
                self.datamodule.prepare_data()
            record("collective", None, name="barrier", op="", group=None)
            self.datamodule.setup(stage)
        if local_rank() == 0:
            model.prepare_data()
        model.setup(stage)
        model.configure_sharded_model()
        model.configure_model()
        for callback in self.active:
            if certainly(isinstance(callback, Callback)):
                callback.setup(self, model, stage)

    def _end(self, model, stage):
        model.teardown(stage)
        if self.datamodule is not None:
            self.datamodule.teardown(stage)

    def _loader(self, given, hook):
        if given is None and self.datamodule is not None:
            given = getattr(self.datamodule, hook)()
        if given is None:
            given = getattr(self.module, hook)()
        if self.single or not self.distributes:
            return given
        return _mapped(given)

    def _transferred(self, batch):
        for owner in (self.module, self.datamodule):
            if owner is not None:
                batch = owner.on_before_batch_transfer(batch, 0)
                batch = owner.transfer_batch_to_device(batch, constant("device"), 0)
                batch = owner.on_after_batch_transfer(batch, 0)
        return batch

    def _call(self, hook, *args):
        """A hook of every callback and of the module."""
        model = self.module
        for callback in self.active:
            if certainly(isinstance(callback, Callback)):
                getattr(callback, hook)(self, model, *args)
            else:
                escape(model)
        getattr(model, hook)(*args)

    def save_checkpoint(self, filepath, weights_only=False, storage_options=None):
        """Every rank must call it; the main process writes."""
        record("collective", None, name="barrier", op="", group=None)

    def print(self, *args, **kwargs):
        pass

    def tune(self, model, *args, **kwargs):
        pass

    @classmethod
    def from_argparse_args(cls, args, **kwargs):
        """PyTorch Lightning 1.x: the arguments are the user's options."""
        given = vars(args)
        known = (
            "accelerator",
            "strategy",
            "devices",
            "gpus",
            "num_nodes",
            "max_epochs",
            "accumulate_grad_batches",
            "gradient_clip_val",
            "replace_sampler_ddp",
        )
        return cls(**{**{name: given[name] for name in known if name in given}, **kwargs})

    @classmethod
    def add_argparse_args(cls, parser, **kwargs):
        return parser


class _Strategy:
    """What a module finds at `self.trainer.strategy`."""

    root_device = constant("device")
    global_rank = property(lambda self: rank())
    world_size = property(lambda self: world_size())
    is_global_zero = property(lambda self: rank() == 0)

    def barrier(self, name=None):
        record("collective", None, name="barrier", op="", group=None)

    def broadcast(self, obj, src=0):
        holder = [obj]
        _broadcast(holder)
        return holder[0]

    def all_gather(self, tensor, group=None, sync_grads=False):
        return gather_stacked(tensor, differentiable=sync_grads)

    def reduce(self, tensor, group=None, reduce_op="mean"):
        return all_reduce(tensor, "sum" if reduce_op == "sum" else "avg", in_place=False)

    def reduce_boolean_decision(self, decision, all=True):
        record("collective", decision, name="all_reduce", op="sum", group=None)
        return constant("bool")


def _loss_of(output):
    if kind_of(output) == "mapping":
        return output.get("loss", None)
    return output


def _mapped(loaders):
    """`distribute` through lists and dictionaries of loaders."""
    kind = kind_of(loaders)
    if kind == "mapping":
        return {name: _mapped(loader) for name, loader in loaders.items()}
    if kind == "sequence":
        return [_mapped(loader) for loader in loaders]
    return distribute(loaders, "Lightning")


def _batches(loaders):
    """One batch, or a list or dictionary of one from each loader."""
    kind = kind_of(loaders)
    if kind == "mapping":
        for first in list(loaders.values())[0]:
            yield {name: next(iter(loader)) for name, loader in loaders.items()}
    elif kind == "sequence":
        for first in loaders[0]:
            yield first if len(loaders) == 1 else [next(iter(loader)) for loader in loaders]
    else:
        yield from loaders


def _advance(loaders, epoch):
    kind = kind_of(loaders)
    if kind == "mapping":
        for loader in loaders.values():
            advance(loader, epoch)
    elif kind == "sequence":
        for loader in loaders:
            advance(loader, epoch)
    else:
        advance(loaders, epoch)


def _configured(result):
    """Optimizers, schedulers and the metrics they watch, from all the forms that `configure_optimizers` may return."""
    optimizers, schedulers, monitors = [], [], []
    _collect(result, optimizers, schedulers, monitors)
    return optimizers, schedulers, monitors


def _collect(thing, optimizers, schedulers, monitors):
    kind = kind_of(thing)
    if kind == "sequence":
        for part in thing:
            _collect(part, optimizers, schedulers, monitors)
    elif kind == "mapping":
        if "optimizer" in thing:
            optimizers.append(thing["optimizer"])
        for name in ("lr_scheduler", "scheduler"):
            if name in thing:
                inner = thing[name]
                if kind_of(inner) == "mapping":
                    inner = inner["scheduler"]
                    monitors.append(thing[name].get("monitor", thing.get("monitor", None)))
                else:
                    monitors.append(thing.get("monitor", None))
                schedulers.append(inner)
    elif certainly(isinstance(thing, LRScheduler)):
        schedulers.append(thing)
        monitors.append(None)
    elif certainly(thing is None):
        pass
    elif kind == "text" or kind == "number":
        pass
    else:
        optimizers.append(thing)
