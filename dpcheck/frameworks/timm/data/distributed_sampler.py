from dpcheck_intrinsics import local_index, record, world_size


class OrderedDistributedSampler:
    def __init__(self, dataset, num_replicas=None, rank=None):
        self.dataset = dataset
        record("shard", self, num_replicas=num_replicas, rank=rank, shuffle=False)

    def __iter__(self):
        yield local_index(sharded=True)

    def __len__(self):
        return len(self.dataset) // world_size()


class RepeatAugSampler(OrderedDistributedSampler):
    def __init__(self, dataset, num_replicas=None, rank=None, shuffle=True, num_repeats=3, **kwargs):
        self.dataset = dataset
        record("shard", self, num_replicas=num_replicas, rank=rank, shuffle=shuffle)

    def set_epoch(self, epoch):
        record("set epoch", self, epoch=epoch)
