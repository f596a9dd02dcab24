from lightning.pytorch.utilities.seed import *
