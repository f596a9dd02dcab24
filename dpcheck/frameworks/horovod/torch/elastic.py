"""Elastic training: the state is copied from one rank to all before the decorated function runs."""

from dpcheck_intrinsics import broadcast_parameters, local_index, record, set_attributes, world_size


def run(func):
    return func


class TorchState:
    def __init__(self, model=None, optimizer=None, **kwargs):
        self.model = model
        self.optimizer = optimizer
        set_attributes(self, kwargs)
        self.sync()

    def sync(self):
        if self.model is not None:
            broadcast_parameters(self.model.state_dict())

    def commit(self):
        pass

    def save(self):
        pass

    def restore(self):
        pass

    def check_host_updates(self):
        pass

    def register_reset_callbacks(self, callbacks):
        pass


class ElasticSampler:
    def __init__(self, dataset, shuffle=True, seed=0):
        self.dataset = dataset
        self.shuffle = shuffle
        self.seed = seed
        record("shard", self, num_replicas=None, rank=None, shuffle=shuffle, seed=seed)

    def __iter__(self):
        yield local_index(sharded=True)

    def __len__(self):
        return len(self.dataset) // world_size()

    def set_epoch(self, epoch):
        record("set epoch", self, epoch=epoch)

    def record_batch(self, batch_idx, batch_size):
        pass

    def reset(self):
        pass
