"""The `Accelerator`: wraps models, shares out loaders, and divides the loss by the number of accumulated batches."""

from contextlib import contextmanager

from dpcheck_intrinsics import (
    all_reduce,
    certainly,
    clip,
    constant,
    each,
    escape,
    gather_stacked,
    kind_of,
    operation,
    record,
    unknown,
)

from _training import every, is_loader, is_module, is_optimizer, is_scheduler, share
from accelerate.data_loader import skip_first_batches as _skip_first_batches
from accelerate.optimizer import AcceleratedOptimizer
from accelerate.scheduler import AcceleratedScheduler
from accelerate.state import AcceleratorState, PartialState, start
from accelerate.utils.dataclasses import DistributedType, ProjectConfiguration
from deepspeed import initialize as _deepspeed
from torch.nn.parallel import DistributedDataParallel


class Accelerator(PartialState):
    def __init__(
        self,
        device_placement=True,
        split_batches=False,
        mixed_precision=None,
        gradient_accumulation_steps=1,
        cpu=False,
        dataloader_config=None,
        deepspeed_plugin=None,
        fsdp_plugin=None,
        megatron_lm_plugin=None,
        rng_types=None,
        log_with=None,
        project_dir=None,
        project_config=None,
        gradient_accumulation_plugin=None,
        step_scheduler_with_optimizer=True,
        kwargs_handlers=None,
        dynamo_backend=None,
        **kwargs,
    ):
        start()
        self.gradient_accumulation_steps = gradient_accumulation_steps
        if gradient_accumulation_plugin is not None:
            self.gradient_accumulation_steps = gradient_accumulation_plugin.num_steps
        self.sync_gradients = True
        self.split_batches = split_batches
        if dataloader_config is not None:
            self.split_batches = dataloader_config.split_batches
        self.step_with_optimizer = step_scheduler_with_optimizer
        self.fsdp_plugin = fsdp_plugin
        self.deepspeed_plugin = deepspeed_plugin
        self.mixed_precision = mixed_precision
        self.project_dir = project_dir
        self.project_configuration = (
            project_config if project_config is not None else ProjectConfiguration(project_dir)
        )
        self.engines = []
        self.models = []
        self.trackers = []
        self.scaler = None
        self.state = AcceleratorState()
        self.gradient_state = self
        self.optimizer_step_was_skipped = False

    @property
    def distributed_type(self):
        if self.deepspeed_plugin is not None:
            return DistributedType.DEEPSPEED
        if self.fsdp_plugin is not None:
            return DistributedType.FSDP
        return DistributedType.MULTI_GPU

    # What `prepare` does with each kind of object.

    def prepare(self, *objects, device_placement=None):
        if certainly(self.deepspeed_plugin is not None):
            made = self._prepare_deepspeed(objects)
        else:
            made = [self._prepare_any(thing) for thing in objects]
        if len(objects) == 1:
            return made[0]
        return tuple(made)

    def _prepare_any(self, thing):
        if is_module(thing):
            return self.prepare_model(thing)
        return each(self._prepare_one, thing)

    def _prepare_one(self, thing):
        if is_optimizer(thing):
            return self.prepare_optimizer(thing)
        if is_loader(thing):
            return self.prepare_data_loader(thing)
        if is_scheduler(thing):
            return self.prepare_scheduler(thing)
        if kind_of(thing) == "unknown":
            escape(thing)
        return thing

    def prepare_model(self, model, device_placement=None, evaluation_mode=False):
        if evaluation_mode:
            return model
        if self.fsdp_plugin is None:
            made = DistributedDataParallel(model)
        else:
            made = self.fsdp_plugin.shard(model)
        self.models.append(made)
        return made

    def _prepare_deepspeed(self, objects):
        made = []
        for thing in objects:
            if is_module(thing):
                engine, _, _, _ = _deepspeed(model=thing, config={})
                self.engines.append(engine)
                made.append(engine)
            else:
                made.append(self._prepare_any(thing))
        return made

    def prepare_data_loader(self, data_loader, device_placement=None, slice_fn_for_dispatch=None):
        return share(data_loader, "accelerate")

    def prepare_optimizer(self, optimizer, device_placement=None):
        return AcceleratedOptimizer(optimizer, self)

    def prepare_scheduler(self, scheduler):
        return AcceleratedScheduler(scheduler, self)

    # One step.

    def backward(self, loss, **kwargs):
        if not certainly(self.gradient_accumulation_steps == 1):
            loss = loss / self.gradient_accumulation_steps
        loss.backward()

    @contextmanager
    def accumulate(self, *models):
        """Every n-th pass synchronizes gradients and lets the optimizer step."""
        self.sync_gradients = every(self.gradient_accumulation_steps)
        for model in models:
            model.require_backward_grad_sync = self.sync_gradients
        yield
        for model in models:
            model.require_backward_grad_sync = True

    @contextmanager
    def no_sync(self, model):
        if certainly(hasattr(model, "no_sync")):
            with model.no_sync():
                yield
        else:
            yield

    def set_trigger(self):
        pass

    def check_trigger(self):
        record("collective", None, name="all_reduce", op="sum", group=None)
        return constant("bool")

    def unscale_gradients(self, optimizer=None):
        pass

    def clip_grad_norm_(self, parameters, max_norm, norm_type=2):
        if self.fsdp_plugin is not None:
            return clip(parameters, "sharded")
        return clip(parameters, "norm")

    def clip_grad_value_(self, parameters, clip_value):
        clip(parameters, "value")

    @contextmanager
    def autocast(self, autocast_handler=None):
        yield

    @contextmanager
    def profile(self, profile_handler=None):
        yield unknown()

    @contextmanager
    def join_uneven_inputs(self, joinables, even_batches=None):
        for joinable in joinables:
            record("join", joinable)
        yield

    # Across the ranks.

    def gather(self, tensor):
        return gather_stacked(tensor)

    def gather_for_metrics(self, input_data, use_gather_object=False):
        """Without the examples that were repeated to even the shares."""
        return gather_stacked(input_data)

    def reduce(self, tensor, reduction="sum", scale=1.0):
        op = "sum" if reduction == "sum" else "avg"
        result = all_reduce(tensor, op, in_place=False)
        return result if certainly(scale == 1.0) else result * scale

    def pad_across_processes(self, tensor, dim=0, pad_index=0, pad_first=False):
        record("collective", tensor, name="all_gather", op="", group=None, said="padding, which gathers the sizes")
        return operation("pad_across_ranks", [tensor])

    # Around the training loop.

    def unwrap_model(self, model, keep_fp32_wrapper=True, keep_torch_compile=True):
        return each(_unwrapped, model)

    def get_state_dict(self, model, unwrap=True):
        return model.state_dict()

    def save(self, obj, f, safe_serialization=False):
        """Writes on the main process only."""

    def save_model(self, model, save_directory, max_shard_size="10GB", safe_serialization=True):
        """Writes on the main process only."""

    def save_state(self, output_dir=None, **kwargs):
        """Each rank writes its random state, the main process the rest. With names of its own it waits for all."""
        if certainly(self.project_configuration.automatic_checkpoint_naming):
            self.wait_for_everyone()

    def load_state(self, input_dir=None, **kwargs):
        pass

    def register_for_checkpointing(self, *objects):
        pass

    def register_save_state_pre_hook(self, hook):
        pass

    def register_load_state_pre_hook(self, hook):
        pass

    def init_trackers(self, project_name, config=None, init_kwargs=None):
        """Trackers live on the main process only."""

    def get_tracker(self, name, unwrap=False):
        return unknown()

    def log(self, values, step=None, log_kwargs=None):
        """Logs on the main process only."""

    def end_training(self):
        pass

    def free_memory(self, *objects):
        return list(objects)

    clear = free_memory

    def skip_first_batches(self, dataloader, num_batches=0):
        return _skip_first_batches(dataloader, num_batches)

    def verify_device_map(self, model):
        return False


def _unwrapped(model):
    if certainly(hasattr(model, "module")):
        return model.module
    return model
