from lightning.pytorch.core import *
