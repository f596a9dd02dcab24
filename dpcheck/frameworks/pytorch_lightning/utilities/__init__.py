from lightning.pytorch.utilities import *
