from einops import rearrange, reduce

from torch.nn import Module


class Rearrange(Module):
    def __init__(self, pattern, **axes):
        super().__init__()
        self.pattern = pattern

    def forward(self, input):
        return rearrange(input, self.pattern)


class Reduce(Module):
    def __init__(self, pattern, reduction, **axes):
        super().__init__()
        self.pattern = pattern
        self.reduction = reduction

    def forward(self, input):
        return reduce(input, self.pattern, self.reduction)
