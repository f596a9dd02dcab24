from torch.distributed._composable.fsdp import fully_shard
