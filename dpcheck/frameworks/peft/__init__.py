"""PEFT: a model with adapters. Adapters are drawn when they are added."""

from dpcheck_intrinsics import constant, load_state, parameter, record, set_attributes, unknown

from torch.nn import Module

__submodules__ = True


class PeftConfig:
    def __init__(self, **kwargs):
        set_attributes(self, kwargs)

    @classmethod
    def from_pretrained(cls, *args, **kwargs):
        return cls()

    def __getattr__(self, name):
        return constant()


class PeftModel(Module):
    def __init__(self, model, peft_config=None, *args, **kwargs):
        super().__init__()
        self.base_model = model
        self.peft_config = {"default": peft_config}
        self.adapter = parameter(drawn=True)

    @classmethod
    def from_pretrained(cls, model, model_id, *args, **kwargs):
        made = cls(model)
        load_state(made, constant())
        return made

    def forward(self, *args, **kwargs):
        return self.base_model(*args, **kwargs)

    def get_base_model(self):
        return self.base_model

    def print_trainable_parameters(self):
        pass

    def get_nb_trainable_parameters(self):
        return constant("int"), constant("int")

    def merge_and_unload(self, *args, **kwargs):
        return self.base_model

    unload = merge_and_unload

    def save_pretrained(self, save_directory, *args, is_main_process=True, **kwargs):
        if is_main_process:
            record("write", self, path=save_directory)

    def set_adapter(self, name):
        pass

    def load_adapter(self, *args, **kwargs):
        load_state(self, constant())

    def __getattr__(self, name):
        return getattr(self.base_model, name)


PeftModelForCausalLM = PeftModel
PeftModelForSequenceClassification = PeftModel
PeftModelForSeq2SeqLM = PeftModel


class AutoPeftModelForCausalLM:
    @staticmethod
    def from_pretrained(name, *args, **kwargs):
        from transformers import CausalLM

        return PeftModel(CausalLM.from_pretrained(name))


class TaskType:
    CAUSAL_LM = "CAUSAL_LM"
    SEQ_CLS = "SEQ_CLS"
    SEQ_2_SEQ_LM = "SEQ_2_SEQ_LM"
    TOKEN_CLS = "TOKEN_CLS"


def get_peft_model(model, peft_config, *args, **kwargs):
    return PeftModel(model, peft_config)


def prepare_model_for_kbit_training(model, *args, **kwargs):
    return model


prepare_model_for_int8_training = prepare_model_for_kbit_training


def get_peft_model_state_dict(model, *args, **kwargs):
    return model.state_dict()


def set_peft_model_state_dict(model, peft_model_state_dict, *args, **kwargs):
    load_state(model, peft_model_state_dict)
    return unknown()


def inject_adapter_in_model(peft_config, model, *args, **kwargs):
    return model


def __getattr__(name):
    if name.endswith("Config"):
        return PeftConfig
    if name.endswith("Model"):
        return PeftModel
    return lambda *args, **kwargs: unknown(*args)
