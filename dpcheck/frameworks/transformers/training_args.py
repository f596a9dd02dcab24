"""The settings of the Trainer, each where the user wrote it. Fields that are not here may be given all the same."""

from contextlib import contextmanager

from dpcheck_intrinsics import constant, local_rank, rank, world_size

from accelerate.state import start


class ParallelMode:
    NOT_PARALLEL = "not_parallel"
    DISTRIBUTED = "distributed"


class OptimizerNames:
    ADAMW_TORCH = "adamw_torch"
    ADAFACTOR = "adafactor"
    SGD = "sgd"


class TrainingArguments:
    output_dir: str = None
    overwrite_output_dir: bool = False
    do_train: bool = False
    do_eval: bool = False
    do_predict: bool = False
    eval_strategy: str = "no"
    evaluation_strategy: str = "no"
    prediction_loss_only: bool = False
    per_device_train_batch_size: int = 8
    per_device_eval_batch_size: int = 8
    gradient_accumulation_steps: int = 1
    eval_accumulation_steps: int = None
    learning_rate: float = 5e-5
    weight_decay: float = 0.0
    adam_beta1: float = 0.9
    adam_beta2: float = 0.999
    adam_epsilon: float = 1e-8
    max_grad_norm: float = 1.0
    num_train_epochs: float = 3.0
    max_steps: int = -1
    lr_scheduler_type: str = "linear"
    lr_scheduler_kwargs: dict = None
    warmup_ratio: float = 0.0
    warmup_steps: int = 0
    log_level: str = "passive"
    logging_dir: str = None
    logging_strategy: str = "steps"
    logging_first_step: bool = False
    logging_steps: float = 500
    save_strategy: str = "steps"
    save_steps: float = 500
    save_total_limit: int = None
    save_safetensors: bool = True
    seed: int = 42
    data_seed: int = None
    bf16: bool = False
    fp16: bool = False
    tf32: bool = None
    dataloader_drop_last: bool = False
    eval_steps: float = None
    dataloader_num_workers: int = 0
    run_name: str = None
    disable_tqdm: bool = None
    remove_unused_columns: bool = True
    label_names: list = None
    load_best_model_at_end: bool = False
    metric_for_best_model: str = None
    greater_is_better: bool = None
    ignore_data_skip: bool = False
    fsdp: str = None
    fsdp_config: dict = None
    deepspeed: str = None
    label_smoothing_factor: float = 0.0
    optim: str = "adamw_torch"
    optim_args: str = None
    group_by_length: bool = False
    report_to: str = None
    ddp_find_unused_parameters: bool = None
    ddp_timeout: int = 1800
    dataloader_pin_memory: bool = True
    push_to_hub: bool = False
    resume_from_checkpoint: str = None
    hub_model_id: str = None
    hub_token: str = None
    gradient_checkpointing: bool = False
    gradient_checkpointing_kwargs: dict = None
    torch_compile: bool = False
    auto_find_batch_size: bool = False
    full_determinism: bool = False
    neftune_noise_alpha: float = None
    average_tokens_across_devices: bool = True
    use_cpu: bool = False
    include_inputs_for_metrics: bool = False

    def __post_init__(self):
        start()

    world_size = property(lambda self: world_size())
    process_index = property(lambda self: rank())
    local_process_index = property(lambda self: local_rank())
    local_rank = property(lambda self: local_rank())
    n_gpu = 1
    device = property(lambda self: constant("device"))
    train_batch_size = property(lambda self: self.per_device_train_batch_size)
    eval_batch_size = property(lambda self: self.per_device_eval_batch_size)
    parallel_mode = ParallelMode.DISTRIBUTED
    should_log = property(lambda self: rank() == 0)
    should_save = property(lambda self: rank() == 0)
    accelerator_config = property(lambda self: constant())
    hf_deepspeed_config = None

    @contextmanager
    def main_process_first(self, local=True, desc="work"):
        """Rank 0 goes ahead, the others wait: all of them execute the body."""
        yield

    def get_warmup_steps(self, num_training_steps):
        return constant("int")

    def get_process_log_level(self):
        return constant("int")

    def to_dict(self):
        return vars(self)

    def to_sanitized_dict(self):
        return vars(self)

    def to_json_string(self):
        return constant("str")

    def set_training(self, *args, **kwargs):
        return self


class Seq2SeqTrainingArguments(TrainingArguments):
    sortish_sampler: bool = False
    predict_with_generate: bool = False
    generation_max_length: int = None
    generation_num_beams: int = None
    generation_config: str = None
