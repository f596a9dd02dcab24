"""`Trainer.fit` wraps the module, shares out the loaders, and runs training steps, backward and optimizer steps."""

from lightning.fabric.utilities.seed import seed_everything
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.datamodule import LightningDataModule
from lightning.pytorch.module import LightningModule
from lightning.pytorch.trainer import Trainer

__version__ = "2.6.0"
