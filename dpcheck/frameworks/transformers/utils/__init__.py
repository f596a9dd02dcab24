from dpcheck_intrinsics import constant

from transformers.modeling import ModelOutput
from transformers.tokenization_utils_base import PaddingStrategy

from transformers.utils import logging

WEIGHTS_NAME = "pytorch_model.bin"
CONFIG_NAME = "config.json"
SAFE_WEIGHTS_NAME = "model.safetensors"


def check_min_version(version):
    pass


def send_example_telemetry(*args, **kwargs):
    pass


def __getattr__(name):
    if name.startswith("is_"):
        return lambda *args, **kwargs: constant("bool")
    return lambda *args, **kwargs: constant()
