"""Lightning 2.x (and PyTorch Lightning 1.x, see `pytorch_lightning`)."""

from lightning.fabric import Fabric
from lightning.fabric.utilities.seed import seed_everything
from lightning.pytorch import Callback, LightningDataModule, LightningModule, Trainer

__version__ = "2.6.0"
