from torch.optim import SGD, Adam, AdamW


class FusedAdam(AdamW):
    pass


class FusedLAMB(AdamW):
    pass


class FusedNovoGrad(AdamW):
    pass


class FusedSGD(SGD):
    pass


class FusedAdagrad(Adam):
    pass
