from lightning.pytorch.datamodule import LightningDataModule
from lightning.pytorch.module import LightningModule
