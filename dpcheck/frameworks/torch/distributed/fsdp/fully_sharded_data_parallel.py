from torch.distributed.fsdp import *
from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy, StateDictType, MixedPrecision, CPUOffload, BackwardPrefetch, FullStateDictConfig
