from lightning.fabric.utilities.seed import *
