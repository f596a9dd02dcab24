from lightning.pytorch.utilities.rank_zero import *
