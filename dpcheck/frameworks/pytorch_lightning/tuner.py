from lightning.pytorch.tuner import *
