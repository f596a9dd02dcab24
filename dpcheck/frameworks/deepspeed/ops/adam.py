from torch.optim import AdamW


class FusedAdam(AdamW):
    pass


class DeepSpeedCPUAdam(AdamW):
    pass
