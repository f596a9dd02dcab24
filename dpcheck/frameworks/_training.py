"""What the stubs of the training frameworks share: shared-out loaders, accumulation, and what an object is for.

No library has this name: the stubs beside it import it.
"""

from dpcheck_intrinsics import certainly, copy, counter, each, kind_of, record, sharded, world_size

from torch.nn import Module
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler
from torch.utils.data import DataLoader, IterableDataset
from torch.utils.data.distributed import DistributedSampler


def every(n):
    """Is this pass of the loop one in `n`? True on each pass where `n` is 1."""
    if certainly(n == 1):
        return True
    return counter() % n == 0


def is_module(thing):
    return certainly(isinstance(thing, Module)) or kind_of(thing) == "object" and certainly(hasattr(thing, "forward"))


def is_optimizer(thing):
    return certainly(isinstance(thing, Optimizer))


def is_loader(thing):
    return certainly(isinstance(thing, DataLoader))


def is_scheduler(thing):
    return certainly(isinstance(thing, LRScheduler))


class _Share:
    """A sampler of which this rank takes its share."""

    def __init__(self, sampler):
        self.sampler = sampler
        self.batch_size = getattr(sampler, "batch_size", None)
        self.drop_last = getattr(sampler, "drop_last", False)

    def __iter__(self):
        for index in self.sampler:
            yield sharded(index)

    def __len__(self):
        return len(self.sampler) // world_size()

    def set_epoch(self, epoch):
        if certainly(hasattr(self.sampler, "set_epoch")):
            self.sampler.set_epoch(epoch)


class _Stream(IterableDataset):
    """An iterable data set of which this rank takes its share."""

    def __init__(self, dataset):
        self.dataset = dataset

    def __iter__(self):
        for item in self.dataset:
            yield sharded(item)

    def __len__(self):
        return len(self.dataset)

    def set_epoch(self, epoch):
        self.dataset.set_epoch(epoch)

    def __getattr__(self, name):
        return getattr(self.dataset, name)


def share(loader, by):
    """A loader like `loader` that gives this rank its share: padded to even parts, a new order each epoch."""
    return each(lambda one: _share(one, by), loader)


def _share(loader, by):
    if not is_loader(loader):
        return loader
    made = copy(loader)
    record("shard", made, loader=loader, by=by, shuffle=loader.shuffle)
    if certainly(loader.iterable):
        made.dataset = _Stream(loader.dataset)
    elif loader.batch_sampler is not None:
        made.batch_sampler = _Share(loader.batch_sampler)
    else:
        made.sampler = _Share(loader.sampler)
    made.set_epoch = lambda epoch: record("set epoch", made, epoch=epoch)
    return made


def distribute(loader, by):
    """What Lightning does: a loader over a map-style data set gets a `DistributedSampler`, others stay as they are."""
    return each(lambda one: _distribute(one, by), loader)


def _distribute(loader, by):
    if not is_loader(loader) or certainly(loader.iterable) or isinstance(loader.sampler, DistributedSampler):
        return loader
    return _share(loader, by)


def advance(loader, epoch):
    """Tell the loader's sampler which epoch it is, as frameworks do before they iterate it."""
    if certainly(hasattr(loader.sampler, "set_epoch")):
        loader.sampler.set_epoch(epoch)
