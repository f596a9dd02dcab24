"""PyTorch Lightning: the older name of `lightning.pytorch`; 1.x names are kept beside the new ones."""

from lightning.pytorch import Callback, LightningDataModule, LightningModule, Trainer, seed_everything

__version__ = "2.6.0"
