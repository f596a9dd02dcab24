from lightning.pytorch.strategies import *
