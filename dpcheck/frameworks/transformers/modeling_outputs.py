from transformers.modeling import ModelOutput


def __getattr__(name):
    return ModelOutput
