from lightning.pytorch.utilities.combined_loader import *
