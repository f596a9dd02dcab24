"""The Trainer by its old place."""

from lightning.pytorch.trainer import Trainer
