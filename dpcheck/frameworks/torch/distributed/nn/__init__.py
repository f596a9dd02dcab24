from torch.distributed.nn.functional import all_gather, all_reduce, broadcast
