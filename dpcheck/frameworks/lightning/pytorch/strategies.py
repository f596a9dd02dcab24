from lightning.fabric.strategies import *
