from torch.optim import Optimizer
