from lightning.fabric.utilities.rank_zero import *
