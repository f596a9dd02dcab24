from torch.utils import checkpoint, data, tensorboard
