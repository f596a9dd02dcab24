from lightning.pytorch.cli import *
