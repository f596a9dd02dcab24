"""TRL. Its supervised trainer is the Trainer of Transformers; the others compute losses of their own."""

from dpcheck_intrinsics import constant, kind_of, operation, unknown

from transformers.data.data_collator import DataCollatorForLanguageModeling, DataCollatorForSeq2Seq, DataCollatorMixin
from transformers.hf_argparser import HfArgumentParser
from transformers.modeling import CausalLM
from transformers.tokenization import PreTrainedTokenizerBase, unread
from transformers.trainer import Trainer
from transformers.training_args import TrainingArguments

from peft import PeftModel

__submodules__ = True


class SFTConfig(TrainingArguments):
    dataset_text_field: str = "text"
    max_length: int = 1024
    max_seq_length: int = 1024
    packing: bool = False
    completion_only_loss: bool = None
    assistant_only_loss: bool = False
    dataset_kwargs: dict = None
    model_init_kwargs: dict = None
    eos_token: str = None
    chat_template_path: str = None


class _Collator(DataCollatorMixin):
    """Pads tokens; labels are -100 at padding, and at the prompt where only the completion counts."""

    def __init__(self):
        pass

    def __call__(self, features, return_tensors=None):
        row = features[0]
        if kind_of(row) != "mapping" or "input_ids" not in row:
            return unread(features)
        return DataCollatorForLanguageModeling(PreTrainedTokenizerBase(), mlm=False)(features)


class SFTTrainer(Trainer):
    def __init__(
        self,
        model=None,
        args=None,
        data_collator=None,
        train_dataset=None,
        eval_dataset=None,
        processing_class=None,
        compute_loss_func=None,
        compute_metrics=None,
        callbacks=None,
        optimizers=(None, None),
        optimizer_cls_and_kwargs=None,
        preprocess_logits_for_metrics=None,
        peft_config=None,
        formatting_func=None,
        tokenizer=None,
        **kwargs,
    ):
        if args is None:
            args = SFTConfig(output_dir="tmp_trainer")
        if kind_of(model) == "text":
            model = CausalLM.from_pretrained(model)
        if peft_config is not None:
            model = PeftModel(model, peft_config)
        self.formatting_func = formatting_func
        super().__init__(
            model=model,
            args=args,
            data_collator=data_collator if data_collator is not None else _Collator(),
            train_dataset=train_dataset,
            eval_dataset=eval_dataset,
            processing_class=processing_class if processing_class is not None else tokenizer,
            compute_loss_func=compute_loss_func,
            compute_metrics=compute_metrics,
            callbacks=callbacks,
            optimizers=optimizers,
            optimizer_cls_and_kwargs=optimizer_cls_and_kwargs,
        )


class _OwnLoss(Trainer):
    """Rewards, preferences, distillation: the loss is the library's own."""

    def __init__(self, model=None, ref_model=None, args=None, *, reward_funcs=None, peft_config=None, **kwargs):
        if kind_of(model) == "text":
            model = CausalLM.from_pretrained(model)
        known = ("train_dataset", "eval_dataset", "processing_class", "tokenizer", "callbacks", "data_collator")
        if args is None and kind_of(ref_model) == "object":
            args = ref_model
        super().__init__(model=model, args=args, **{name: kwargs[name] for name in known if name in kwargs})

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        outputs = model(unknown(inputs))
        loss = unknown(outputs.logits)
        return (loss, outputs) if return_outputs else loss


class ModelConfig:
    model_name_or_path: str = None
    torch_dtype: str = None
    attn_implementation: str = None
    use_peft: bool = False


class ScriptArguments:
    dataset_name: str = None
    dataset_config: str = None
    dataset_train_split: str = "train"
    dataset_test_split: str = "test"


class TrlParser(HfArgumentParser):
    def parse_args_and_config(self, *args, **kwargs):
        return self.parse_args_into_dataclasses()


class DataCollatorForCompletionOnlyLM(DataCollatorForLanguageModeling):
    """Labels are -100 up to the answer, which differs from text to text."""

    def __init__(
        self,
        response_template=None,
        instruction_template=None,
        *args,
        tokenizer=None,
        mlm=False,
        ignore_index=-100,
        **kwargs,
    ):
        self.tokenizer = tokenizer
        self.mlm = mlm

    def __call__(self, features, return_tensors=None):
        batch = super().__call__(features)
        if kind_of(batch) == "mapping":
            prompt = operation("bernoulli", [operation("rand_like", [batch["input_ids"]])])
            batch["labels"] = operation("masked_fill", [batch["input_ids"], prompt, -100], at=self)
        return batch


def get_kbit_device_map():
    return constant()


def get_quantization_config(*args):
    return constant()


def get_peft_config(*args):
    return None


def setup_chat_format(model, tokenizer, *args, **kwargs):
    return model, tokenizer


def __getattr__(name):
    if name.endswith("Config"):
        return SFTConfig
    if name.endswith("Trainer"):
        return _OwnLoss
    return lambda *args, **kwargs: unknown(*args)
