"""MosaicML Streaming: a `StreamingDataset` gives each rank its own samples, and a new order each epoch."""

from dpcheck_intrinsics import constant, record, sharded

from torch.utils.data import DataLoader, IterableDataset


class Stream:
    def __init__(self, *args, **kwargs):
        pass


class StreamingDataset(IterableDataset):
    def __init__(self, *args, remote=None, local=None, batch_size=None, **kwargs):
        self.batch_size = batch_size
        self.epoch = 0
        record("shard", self, num_replicas=None, rank=None)

    def __getitem__(self, index):
        sample = {}
        sample[constant("str")] = sharded(constant())
        return sample

    def __iter__(self):
        yield self[constant("int")]

    def __len__(self):
        return constant("int")

    size = property(lambda self: constant("int"))
    num_samples = property(lambda self: constant("int"))

    def state_dict(self, *args):
        return {}

    def load_state_dict(self, obj):
        pass


class StreamingDataLoader(DataLoader):
    def state_dict(self):
        return {}

    def load_state_dict(self, obj):
        pass


StreamingTextDataset = StreamingDataset
StreamingImageClassificationDataset = StreamingDataset


class MDSWriter:
    def __init__(self, *args, **kwargs):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        return None

    def write(self, sample):
        pass


def __getattr__(name):
    return StreamingDataset
