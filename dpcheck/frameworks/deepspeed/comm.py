from torch.distributed import *
from torch.distributed import init_process_group


def init_distributed(dist_backend="nccl", *args, **kwargs):
    init_process_group(dist_backend)
