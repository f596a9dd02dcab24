from transformers.modeling import PreTrainedModel


def unwrap_model(model, recursive=False):
    return getattr(model, "module", model)
