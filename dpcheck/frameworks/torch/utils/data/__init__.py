"""Data sets, samplers and loaders: which examples a rank sees."""

from dpcheck_intrinsics import certainly, drawn, from_loader, is_iterable_dataset, kind_of, local_index, many, operation, record, seed, unknown, worker

from torch.utils.data import distributed
from torch.utils.data.distributed import DistributedSampler


class Dataset:
    def __add__(self, other):
        return ConcatDataset([self, other])


class IterableDataset(Dataset):
    pass


class TensorDataset(Dataset):
    def __init__(self, *tensors):
        self.tensors = tensors

    def __getitem__(self, index):
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self):
        return len(self.tensors[0])


class ConcatDataset(Dataset):
    def __init__(self, datasets):
        self.datasets = datasets

    def __getitem__(self, index):
        for dataset in self.datasets:
            return dataset[index]

    def __len__(self):
        return sum(len(dataset) for dataset in self.datasets)


class ChainDataset(IterableDataset):
    def __init__(self, datasets):
        self.datasets = datasets

    def __iter__(self):
        for dataset in self.datasets:
            yield from dataset


class Subset(Dataset):
    def __init__(self, dataset, indices):
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, index):
        return self.dataset[self.indices[index]]

    def __len__(self):
        return len(self.indices)


def random_split(dataset, lengths, generator=None):
    order = drawn("torch", generator=generator, size=len(dataset), permutation=True)
    record("split", dataset, generator=generator, library="torch")
    indices = [int(index) for index in order.tolist()]
    return [Subset(dataset, indices) for _ in lengths]


class Sampler:
    def __init__(self, data_source=None):
        pass


class SequentialSampler(Sampler):
    def __init__(self, data_source):
        self.data_source = data_source

    def __iter__(self):
        yield local_index()

    def __len__(self):
        return len(self.data_source)


class RandomSampler(Sampler):
    def __init__(self, data_source, replacement=False, num_samples=None, generator=None):
        self.data_source = data_source
        self.generator = generator

    def __iter__(self):
        yield local_index()

    def __len__(self):
        return len(self.data_source)


class SubsetRandomSampler(Sampler):
    def __init__(self, indices, generator=None):
        self.indices = indices

    def __iter__(self):
        for index in self.indices:
            yield index

    def __len__(self):
        return len(self.indices)


class WeightedRandomSampler(Sampler):
    def __init__(self, weights, num_samples, replacement=True, generator=None):
        self.num_samples = num_samples

    def __iter__(self):
        yield local_index()

    def __len__(self):
        return self.num_samples


class BatchSampler(Sampler):
    def __init__(self, sampler, batch_size, drop_last):
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self):
        for index in self.sampler:
            yield many(index)

    def __len__(self):
        return len(self.sampler) // self.batch_size


def default_collate(items):
    """Items of one shape become one tensor with a row for each, through tuples and dictionaries."""
    item = items[0]
    kind = kind_of(item)
    if kind == "mapping":
        return {key: default_collate([each[key] for each in items]) for key in item}
    if kind == "sequence":
        return [default_collate(column) for column in zip(*items)]
    if kind == "text":
        return items
    if kind == "tensor":
        return operation("stack", [items])
    if kind == "number":
        return operation("tensor", [items])
    if kind == "object" and certainly(hasattr(item, "_asdict")):
        return type(item)(**{name: default_collate([getattr(each, name) for each in items]) for name in item._asdict()})
    return unknown(item)


_utils = None


class WorkerInfo:
    pass


def get_worker_info():
    info = WorkerInfo()
    info.id = worker()
    info.num_workers = worker()
    info.seed = unknown()
    info.dataset = unknown()
    return info


class DataLoader:
    def __init__(
        self,
        dataset,
        batch_size=1,
        shuffle=None,
        sampler=None,
        batch_sampler=None,
        num_workers=0,
        collate_fn=None,
        pin_memory=False,
        drop_last=False,
        timeout=0,
        worker_init_fn=None,
        multiprocessing_context=None,
        generator=None,
        **kwargs,
    ):
        self.dataset = dataset
        self.batch_size = batch_size
        self.collate_fn = collate_fn
        self.drop_last = drop_last
        self.generator = generator
        self.num_workers = num_workers
        self.given_sampler = sampler
        self.batch_sampler = batch_sampler
        self.shuffle = shuffle
        self.iterable = is_iterable_dataset(dataset)
        if sampler is None:
            sampler = RandomSampler(dataset) if shuffle else SequentialSampler(dataset)
        self.sampler = sampler
        record("loader", self, dataset=dataset, shuffle=shuffle, sampler=self.given_sampler, batch_sampler=batch_sampler, iterable=self.iterable, drop_last=drop_last, batch_size=batch_size, collate_fn=collate_fn)

    def __len__(self):
        if self.batch_sampler is not None:
            return len(self.batch_sampler)
        return len(self.sampler) // self.batch_size

    def __iter__(self):
        record("iterate", self)
        return self.batches()

    def batches(self):
        yield from_loader(self, self.fetch(), self.collate_fn is None)

    def fetch(self):
        """One batch, as the worker makes it."""
        if self.iterable:
            item = next(iter(self.dataset))
            if self.batch_size is None:
                return item
            items = many(item)
        elif self.batch_sampler is not None:
            indices = next(iter(self.batch_sampler))
            record("sampled", self, index=indices)
            items = [self.dataset[index] for index in indices]
        else:
            index = next(iter(self.sampler))
            record("sampled", self, index=index)
            item = self.dataset[index]
            if self.batch_size is None:
                return item
            items = many(item)
        record("items", self, items=items)
        if self.collate_fn is None:
            return default_collate(items)
        return self.collate_fn(items)
