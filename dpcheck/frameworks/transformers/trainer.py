"""`Trainer.train`: a sharded loader, DDP (or FSDP), and windows of micro-batches whose labels are counted together."""

from dpcheck_intrinsics import (
    accepts,
    certainly,
    constant,
    count_targets,
    counter,
    each,
    escape,
    gather_stacked,
    kind_of,
    local_rank,
    located,
    no_grad,
    rank,
    unknown,
    world_size,
)

from _training import advance
from accelerate import Accelerator
from accelerate.state import start
from deepspeed import DeepSpeedEngine
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.nn.parallel import DistributedDataParallel
from torch.optim import AdamW
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, RandomSampler

from transformers.data.data_collator import DataCollatorWithPadding, default_data_collator
from transformers.trainer_callback import TrainerCallback, TrainerControl, TrainerState
from transformers.trainer_utils import EvalPrediction, PredictionOutput, TrainOutput, set_seed
from transformers.training_args import TrainingArguments


class Trainer:
    def __init__(
        self,
        model=None,
        args=None,
        data_collator=None,
        train_dataset=None,
        eval_dataset=None,
        processing_class=None,
        model_init=None,
        compute_loss_func=None,
        compute_metrics=None,
        callbacks=None,
        optimizers=(None, None),
        optimizer_cls_and_kwargs=None,
        preprocess_logits_for_metrics=None,
        tokenizer=None,
        **kwargs,
    ):
        if args is None:
            args = TrainingArguments(output_dir="tmp_trainer")
        start()
        set_seed(args.seed)
        self.args = args
        self.model_init = model_init
        if model is None:
            model = model_init() if model_init is not None else unknown()
        self.model = model
        self.model_wrapped = model
        self.processing_class = processing_class if processing_class is not None else tokenizer
        self.tokenizer = self.processing_class
        if data_collator is None:
            if self.processing_class is not None:
                data_collator = DataCollatorWithPadding(self.processing_class)
            else:
                data_collator = default_data_collator
        self.data_collator = data_collator
        self.train_dataset = train_dataset
        self.eval_dataset = eval_dataset
        self.compute_loss_func = compute_loss_func
        self.compute_metrics = compute_metrics
        self.callbacks = list(callbacks) if callbacks is not None else []
        self.callback_handler = self
        self.optimizer, self.lr_scheduler = optimizers
        self.optimizer_cls_and_kwargs = optimizer_cls_and_kwargs
        self.state = TrainerState()
        self.control = TrainerControl()
        self.accelerator = Accelerator()
        self.label_names = ["labels"]
        self.is_in_train = False
        self.is_deepspeed_enabled = certainly(args.deepspeed is not None)
        self.is_fsdp_enabled = certainly(args.fsdp is not None) and not certainly(args.fsdp == "")
        self.label_smoother = None
        self.current_gradient_accumulation_steps = args.gradient_accumulation_steps
        self.model_accepts_loss_kwargs = _accepts_loss_kwargs(model)

    # Data.

    def get_train_dataloader(self):
        return self._get_dataloader(self.train_dataset, self._get_train_sampler, True)

    def _get_train_sampler(self, train_dataset=None):
        return RandomSampler(self.train_dataset)

    def get_eval_dataloader(self, eval_dataset=None):
        dataset = eval_dataset if eval_dataset is not None else self.eval_dataset
        return self._get_dataloader(dataset, self._get_eval_sampler, False)

    def _get_eval_sampler(self, eval_dataset=None):
        return None

    def get_test_dataloader(self, test_dataset):
        return self._get_dataloader(test_dataset, self._get_eval_sampler, False)

    def _get_dataloader(self, dataset, sampler_of, training):
        args = self.args
        size = args.per_device_train_batch_size if training else args.per_device_eval_batch_size
        sampler = (
            sampler_of(dataset) if certainly(accepts(sampler_of, "train_dataset")) or not training else sampler_of()
        )
        loader = DataLoader(
            dataset,
            batch_size=size,
            sampler=sampler,
            collate_fn=self.data_collator,
            drop_last=args.dataloader_drop_last,
        )
        return self.accelerator.prepare(loader)

    def _prepare_inputs(self, inputs):
        return inputs

    def _prepare_input(self, data):
        return data

    # Optimizer and schedule.

    def create_optimizer_and_scheduler(self, num_training_steps):
        self.create_optimizer()
        self.create_scheduler(num_training_steps=num_training_steps, optimizer=self.optimizer)

    def create_optimizer(self, model=None):
        if self.optimizer is None:
            if self.optimizer_cls_and_kwargs is not None:
                kind, settings = self.optimizer_cls_and_kwargs
                self.optimizer = kind(self.model.parameters(), **settings)
            else:
                self.optimizer = AdamW(self.model.parameters(), lr=self.args.learning_rate)
        return self.optimizer

    def create_scheduler(self, num_training_steps, optimizer=None):
        if self.lr_scheduler is None:
            self.lr_scheduler = LambdaLR(self.optimizer)
        return self.lr_scheduler

    @staticmethod
    def get_optimizer_cls_and_kwargs(args, model=None):
        return AdamW, {"lr": args.learning_rate}

    def get_decay_parameter_names(self, model):
        return ["weight"]

    def get_learning_rates(self):
        return [0.1]

    # Training.

    def train(self, resume_from_checkpoint=None, trial=None, ignore_keys_for_eval=None, **kwargs):
        args = self.args
        self.is_in_train = True
        loader = self.get_train_dataloader()
        model = self._wrap_model(self.model)
        self.create_optimizer_and_scheduler(num_training_steps=constant("int"))
        self.model_wrapped = model
        self._call("on_train_begin")
        for epoch in range(int(args.num_train_epochs)):
            self.state.epoch = epoch
            _advance(loader, epoch)
            self._call("on_epoch_begin")
            for batch in loader:
                self._update(model, batch)
                if self.control.should_epoch_stop or self.control.should_training_stop:
                    break
            self._call("on_epoch_end")
            if self.eval_dataset is not None and not certainly(
                args.eval_strategy == "no" and args.evaluation_strategy == "no"
            ):
                self.evaluate()
            if self.control.should_training_stop:
                break
        self._call("on_train_end")
        self.is_in_train = False
        return TrainOutput()

    def _wrap_model(self, model, training=True, dataloader=None):
        if self.is_deepspeed_enabled:
            return DeepSpeedEngine(model, None, model.parameters(), {})
        if self.is_fsdp_enabled:
            return FullyShardedDataParallel(model, sync_module_states=True, use_orig_params=True)
        return DistributedDataParallel(model)

    def _update(self, model, batch):
        """One window of micro-batches, their labels counted first, and the optimizer step."""
        args = self.args
        if certainly(args.gradient_accumulation_steps == 1):
            window = [batch]
        else:
            window = [batch for _ in range(args.gradient_accumulation_steps)]
        num_items_in_batch = self._get_num_items_in_batch(window)
        self._call("on_step_begin")
        for index, inputs in enumerate(window):
            model.require_backward_grad_sync = index == len(window) - 1
            self.training_step(model, inputs, num_items_in_batch)
        model.require_backward_grad_sync = True
        if args.max_grad_norm is not None:
            if self.is_fsdp_enabled:
                model.clip_grad_norm_(args.max_grad_norm)
            else:
                self.accelerator.clip_grad_norm_(model.parameters(), args.max_grad_norm)
        self._call("on_pre_optimizer_step")
        self.optimizer.step()
        self.lr_scheduler.step()
        model.zero_grad()
        self.state.global_step = counter()
        self._call("on_step_end")

    def get_batch_samples(self, epoch_iterator, num_batches, device=None):
        window = [next(epoch_iterator) for _ in range(num_batches)]
        return window, self._get_num_items_in_batch(window)

    def _get_num_items_in_batch(self, batch_samples, device=None):
        """The labels of the window that are not -100: of all ranks, unless `average_tokens_across_devices` is off."""
        first = batch_samples[0]
        if not self.model_accepts_loss_kwargs and self.compute_loss_func is None:
            return None
        if kind_of(first) != "mapping" or certainly("labels" not in first):
            return None
        count = sum(count_targets(inputs["labels"]) for inputs in batch_samples)
        if certainly(not self.args.average_tokens_across_devices):
            return located(count, at=self.args.average_tokens_across_devices)
        return gather_stacked(count).sum()

    def training_step(self, model, inputs, num_items_in_batch=None):
        model.train()
        inputs = self._prepare_inputs(inputs)
        if certainly(accepts(self.compute_loss, "num_items_in_batch")) or certainly(accepts(self.compute_loss, "**")):
            loss = self.compute_loss(model, inputs, num_items_in_batch=num_items_in_batch)
        else:
            loss = self.compute_loss(model, inputs)
        scaled = self.compute_loss_func is not None or self.model_accepts_loss_kwargs and num_items_in_batch is not None
        if not scaled and not certainly(self.args.gradient_accumulation_steps == 1):
            loss = loss / self.args.gradient_accumulation_steps
        self.accelerator.backward(loss)
        return loss.detach()

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        """The model's own loss, or `compute_loss_func` of its output; times W where all ranks' labels were counted."""
        labels = None
        if self.compute_loss_func is not None:
            labels = inputs["labels"]
        if num_items_in_batch is not None and self.model_accepts_loss_kwargs:
            inputs = {**inputs, "num_items_in_batch": num_items_in_batch}
        outputs = model(**inputs)
        if self.compute_loss_func is not None:
            loss = self.compute_loss_func(outputs, labels, num_items_in_batch=num_items_in_batch)
        elif certainly(self.args.label_smoothing_factor != 0):
            loss = unknown(_loss_of(outputs))
        elif certainly(_loss_kwargs_unknown(self.model)):
            loss = unknown(_loss_of(outputs))
        else:
            loss = _loss_of(outputs)
        if num_items_in_batch is not None and not certainly(not self.args.average_tokens_across_devices):
            if self.compute_loss_func is None and not certainly(hasattr(self.model, "accepts_loss_kwargs")):
                # What a model of one's own makes of the count is not known, nor does each release scale its loss.
                loss = unknown(loss)
            else:
                loss = loss * world_size()
        return (loss, outputs) if return_outputs else loss

    # Evaluation: on every rank, with what all of them predicted.

    def evaluate(self, eval_dataset=None, ignore_keys=None, metric_key_prefix="eval"):
        loader = self.get_eval_dataloader(eval_dataset)
        metrics = self.evaluation_loop(loader, "Evaluation", metric_key_prefix=metric_key_prefix)
        self._call("on_evaluate", metrics)
        return metrics

    def predict(self, test_dataset, ignore_keys=None, metric_key_prefix="test", **kwargs):
        loader = self.get_test_dataloader(test_dataset)
        self.evaluation_loop(loader, "Prediction", metric_key_prefix=metric_key_prefix)
        return PredictionOutput(constant(), constant())

    def evaluation_loop(
        self, dataloader, description, prediction_loss_only=None, ignore_keys=None, metric_key_prefix="eval"
    ):
        before = no_grad(True)
        model = self.model_wrapped
        model.eval()
        for inputs in dataloader:
            loss, logits, labels = self.prediction_step(model, inputs, False)
            gather_stacked(logits)
        model.train()
        no_grad(before)
        metrics = {"eval_loss": constant("float")}
        if self.compute_metrics is not None:
            made = self.compute_metrics(EvalPrediction(constant(), constant()))
            metrics["eval_metric"] = made
        return metrics

    prediction_loop = evaluation_loop

    def prediction_step(self, model, inputs, prediction_loss_only, ignore_keys=None, **kwargs):
        if certainly(accepts(self.compute_loss, "num_items_in_batch")) or certainly(accepts(self.compute_loss, "**")):
            loss, outputs = self.compute_loss(model, inputs, return_outputs=True)
        else:
            loss, outputs = self.compute_loss(model, inputs, True)
        return loss, unknown(loss), unknown(loss)

    # Around.

    def _call(self, hook, metrics=None):
        for callback in self.callbacks:
            one = callback() if certainly(callable(callback)) else callback
            if certainly(isinstance(one, TrainerCallback)):
                getattr(one, hook)(
                    self.args,
                    self.state,
                    self.control,
                    model=self.model,
                    tokenizer=self.processing_class,
                    processing_class=self.processing_class,
                    optimizer=self.optimizer,
                    lr_scheduler=self.lr_scheduler,
                    metrics=metrics,
                    logs=metrics,
                )
            else:
                escape(self.model)

    def add_callback(self, callback):
        self.callbacks.append(callback)

    def remove_callback(self, callback):
        pass

    def pop_callback(self, callback):
        return callback

    def is_world_process_zero(self):
        return rank() == 0

    def is_local_process_zero(self):
        return local_rank() == 0

    def log(self, logs, *args, **kwargs):
        pass

    def log_metrics(self, split, metrics):
        """On the main process only."""

    def save_metrics(self, split, metrics, combined=True):
        """On the main process only."""

    def save_state(self):
        """On the main process only."""

    def save_model(self, output_dir=None, _internal_call=False):
        """Every rank must call it; the main process writes."""

    def _save(self, output_dir=None, state_dict=None):
        pass

    def _save_checkpoint(self, model, trial, *args, **kwargs):
        pass

    def create_model_card(self, *args, **kwargs):
        pass

    def push_to_hub(self, *args, **kwargs):
        pass

    def num_examples(self, dataloader):
        return len(dataloader.dataset)

    def hyperparameter_search(self, *args, **kwargs):
        return unknown()

    def compute_loss_context_manager(self):
        from contextlib import nullcontext

        return nullcontext()

    autocast_smart_context_manager = compute_loss_context_manager

    def _nested_gather(self, tensors, name=None):
        return gather_stacked(tensors)

    def _set_signature_columns_if_needed(self):
        pass

    def _remove_unused_columns(self, dataset, description=None):
        return dataset

    def floating_point_ops(self, inputs):
        return constant("int")


class Seq2SeqTrainer(Trainer):
    def evaluate(self, eval_dataset=None, ignore_keys=None, metric_key_prefix="eval", **gen_kwargs):
        return super().evaluate(eval_dataset, ignore_keys, metric_key_prefix)


def _advance(loader, epoch):
    if certainly(isinstance(loader, DataLoader)):
        advance(loader, epoch)


def _accepts_loss_kwargs(model):
    """Does the Trainer hand the count of labels to the model? Unknown for models that were not read."""
    if certainly(hasattr(model, "accepts_loss_kwargs")):
        return model.accepts_loss_kwargs is not False and model.accepts_loss_kwargs is not None
    if certainly(hasattr(model, "forward")):
        return certainly(accepts(model.forward, "**"))
    return False


def _loss_kwargs_unknown(model):
    if certainly(hasattr(model, "accepts_loss_kwargs")):
        return model.accepts_loss_kwargs is None
    return not certainly(hasattr(model, "forward"))


def _loss_of(outputs):
    return each(_loss_of_one, outputs)


def _loss_of_one(outputs):
    kind = kind_of(outputs)
    if kind == "mapping":
        return outputs["loss"]
    if kind == "sequence":
        return outputs[0]
    return outputs.loss
