from torch.distributed.algorithms.join import Join, Joinable
