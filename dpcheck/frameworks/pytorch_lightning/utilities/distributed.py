from lightning.pytorch.utilities.distributed import *
