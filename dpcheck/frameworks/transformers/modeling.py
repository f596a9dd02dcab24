"""One class for each kind of head, with its loss. Weights are drawn when a model is built, equal when it is loaded."""

from dpcheck_intrinsics import (
    constant,
    kind_of,
    layer,
    load_state,
    no_grad,
    operation,
    parameter,
    pooled,
    record,
    reduce_targets,
    unknown,
)

from torch.nn import Module

from transformers.configuration import PretrainedConfig


class ModelOutput:
    """Parts by name, by key, or by position: the loss first where there is one."""

    def __init__(self, loss=None, logits=None, hidden=None, **parts):
        self.loss = loss
        self.logits = logits
        self.last_hidden_state = hidden if hidden is not None else logits
        for name, part in parts.items():
            setattr(self, name, part)

    def _parts(self):
        if self.loss is None:
            return (self.last_hidden_state, pooled(self.last_hidden_state))
        return (self.loss, self.logits)

    def __getitem__(self, key):
        if kind_of(key) == "text":
            return getattr(self, key)
        return self._parts()[key]

    def __contains__(self, key):
        if key == "loss":
            return self.loss is not None
        return hasattr(self, key)

    def __iter__(self):
        yield from self._parts()

    def get(self, key, default=None):
        return getattr(self, key, default)

    def keys(self):
        return ["loss", "logits"]

    def to_tuple(self):
        return self._parts()

    def __getattr__(self, name):
        if name == "pooler_output" or name == "image_embeds" or name == "text_embeds":
            return pooled(self.last_hidden_state)
        return unknown(self.logits)


def masked_mean(logits, labels, num_items_in_batch=None):
    """The mean over the labels that are not -100; with a count from outside, their sum divided by that count."""
    if num_items_in_batch is None:
        return reduce_targets(logits, labels, "mean", classes=True, ignore_index=-100)
    total = reduce_targets(logits, labels, "sum", classes=True, ignore_index=-100)
    return operation("div", [total, num_items_in_batch], at=num_items_in_batch)


class PreTrainedModel(Module):
    accepts_loss_kwargs = True
    shifts_labels = False
    supports_gradient_checkpointing = True
    base_model_prefix = "model"
    config_class = PretrainedConfig
    hf_device_map = None
    is_gradient_checkpointing = False

    def __init__(self, config=None, *args, **kwargs):
        self.config = config if config is not None else PretrainedConfig()
        self.weight = parameter(drawn=True)
        self.embeddings = _Embeddings()

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path=None, *args, config=None, **kwargs):
        """Every rank loads the same weights."""
        made = cls(config if config is not None else PretrainedConfig())
        load_state(made, constant())
        return made

    @classmethod
    def from_config(cls, config, **kwargs):
        return cls(config)

    _from_config = from_config

    base_model = property(lambda self: self)
    device = property(lambda self: constant("device"))
    dtype = property(lambda self: constant())
    generation_config = property(lambda self: PretrainedConfig())

    def forward(
        self,
        input_ids=None,
        *args,
        inputs_embeds=None,
        pixel_values=None,
        input_values=None,
        input_features=None,
        **kwargs,
    ):
        return ModelOutput(hidden=self.hidden(input_ids, inputs_embeds, pixel_values, input_values, input_features))

    def hidden(self, *inputs):
        """The states that come of whatever the model was given."""
        for one in inputs:
            if one is not None:
                return layer(one, inputs)
        return unknown()

    def post_init(self):
        pass

    def init_weights(self):
        pass

    def tie_weights(self):
        pass

    def resize_token_embeddings(self, *args, **kwargs):
        return self.get_input_embeddings()

    def get_input_embeddings(self):
        return self.embeddings

    def get_output_embeddings(self):
        return self.embeddings

    def set_input_embeddings(self, value):
        pass

    def gradient_checkpointing_enable(self, *args, **kwargs):
        pass

    def gradient_checkpointing_disable(self):
        pass

    def enable_input_require_grads(self):
        pass

    def num_parameters(self, *args, **kwargs):
        return constant("int")

    def get_memory_footprint(self, *args, **kwargs):
        return constant("int")

    def generate(self, *args, **kwargs):
        before = no_grad(True)
        result = unknown(*args)
        no_grad(before)
        return result

    def save_pretrained(self, save_directory, is_main_process=True, state_dict=None, save_function=None, **kwargs):
        """`save_function` may be one that writes on one process only."""
        if is_main_process and save_function is None:
            record("write", self, path=save_directory)

    def push_to_hub(self, *args, **kwargs):
        pass

    def add_adapter(self, *args, **kwargs):
        pass

    def set_adapter(self, *args, **kwargs):
        pass

    def floating_point_ops(self, inputs):
        return constant("int")

    def prepare_inputs_for_generation(self, *args, **kwargs):
        return {}


class _Embeddings(Module):
    def __init__(self):
        self.num_embeddings = constant("int")
        self.embedding_dim = constant("int")
        self.weight = parameter(drawn=True)


class BaseModel(PreTrainedModel):
    accepts_loss_kwargs = False


class _WithLabels(PreTrainedModel):
    def forward(
        self,
        input_ids=None,
        *args,
        labels=None,
        num_items_in_batch=None,
        inputs_embeds=None,
        pixel_values=None,
        input_values=None,
        input_features=None,
        **kwargs,
    ):
        logits = self.head(self.hidden(input_ids, inputs_embeds, pixel_values, input_values, input_features))
        if labels is None:
            return ModelOutput(logits=logits)
        return ModelOutput(loss=self.loss_of(logits, labels, num_items_in_batch), logits=logits)

    def head(self, hidden):
        return hidden

    def loss_of(self, logits, labels, num_items_in_batch):
        return masked_mean(logits, labels, num_items_in_batch)


class CausalLM(_WithLabels):
    shifts_labels = True

    def loss_of(self, logits, labels, num_items_in_batch):
        return masked_mean(logits, labels, num_items_in_batch)


class MaskedLM(_WithLabels):
    pass


class TokenClassification(_WithLabels):
    pass


class SequenceClassification(_WithLabels):
    """One label a row."""

    def head(self, hidden):
        return pooled(hidden)


class Seq2SeqLM(_WithLabels):
    """Whether the Trainer hands it the global count differs between releases."""

    accepts_loss_kwargs = None


class QuestionAnswering(PreTrainedModel):
    accepts_loss_kwargs = False

    def forward(self, input_ids=None, *args, start_positions=None, end_positions=None, **kwargs):
        logits = self.hidden(input_ids)
        if start_positions is None:
            return ModelOutput(logits=logits, start_logits=logits, end_logits=logits)
        loss = reduce_targets(pooled(logits), start_positions, "mean", classes=True)
        return ModelOutput(loss=loss, logits=logits, start_logits=logits, end_logits=logits)


class UnknownHead(PreTrainedModel):
    accepts_loss_kwargs = None

    def forward(self, input_ids=None, *args, labels=None, **kwargs):
        logits = self.hidden(input_ids, labels)
        return ModelOutput(loss=unknown(logits, labels), logits=logits)
