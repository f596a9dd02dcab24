from dpcheck_intrinsics import local_index, rank as _rank, record, world_size


class DistributedSampler:
    """Pads the data set to a multiple of the ranks (or drops the tail) and gives each rank every W-th index."""

    def __init__(self, dataset, num_replicas=None, rank=None, shuffle=True, seed=0, drop_last=False):
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.shuffle = shuffle
        self.seed = seed
        self.drop_last = drop_last
        record("shard", self, num_replicas=num_replicas, rank=rank, shuffle=shuffle, seed=seed)

    def __iter__(self):
        yield local_index(sharded=True)

    def __len__(self):
        return len(self.dataset) // world_size()

    def set_epoch(self, epoch):
        record("set epoch", self, epoch=epoch)

    @property
    def epoch(self):
        return 0

    @epoch.setter
    def epoch(self, epoch):
        record("set epoch", self, epoch=epoch)
