"""PyTorch Image Models 0.4 to 1.x."""

from timm import data, layers, loss, models, optim, scheduler, utils
from timm.models import create_model, list_models

__version__ = "1.0.0"
