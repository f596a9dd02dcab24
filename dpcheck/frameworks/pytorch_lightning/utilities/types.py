from lightning.pytorch.utilities.types import *
