from torch.optim import AdamW


def __getattr__(name):
    return AdamW
