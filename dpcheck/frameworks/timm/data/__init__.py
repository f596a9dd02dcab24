from dpcheck_intrinsics import constant, unknown

from torch.utils.data import DataLoader, RandomSampler
from torch.utils.data.distributed import DistributedSampler
from torchvision.datasets import ImageFolder
from torchvision.transforms import _Drawn, _Transform

from timm.data import distributed_sampler, mixup
from timm.data.distributed_sampler import OrderedDistributedSampler, RepeatAugSampler
from timm.data.mixup import FastCollateMixup, Mixup

IMAGENET_DEFAULT_MEAN = (0.485, 0.456, 0.406)
IMAGENET_DEFAULT_STD = (0.229, 0.224, 0.225)
IMAGENET_INCEPTION_MEAN = (0.5, 0.5, 0.5)
IMAGENET_INCEPTION_STD = (0.5, 0.5, 0.5)


class ImageDataset(ImageFolder):
    pass


class AugMixDataset(ImageFolder):
    def __init__(self, dataset, num_splits=2):
        super().__init__(None)
        self.dataset = dataset


def create_dataset(name, root=None, split="validation", *args, transform=None, **kwargs):
    return ImageDataset(root, transform=transform)


def create_loader(
    dataset,
    input_size=None,
    batch_size=1,
    is_training=False,
    *args,
    distributed=False,
    num_aug_repeats=0,
    collate_fn=None,
    num_workers=1,
    **kwargs,
):
    """With `distributed` each rank gets its part; without, all of it."""
    sampler = None
    if distributed:
        if is_training:
            if num_aug_repeats:
                sampler = RepeatAugSampler(dataset, num_repeats=num_aug_repeats)
            else:
                sampler = DistributedSampler(dataset)
        else:
            sampler = OrderedDistributedSampler(dataset)
    shuffle = sampler is None and is_training
    return DataLoader(
        dataset, batch_size=batch_size, shuffle=shuffle, sampler=sampler, collate_fn=collate_fn, drop_last=is_training
    )


def create_transform(*args, is_training=False, **kwargs):
    return _Drawn() if is_training else _Transform()


def resolve_data_config(*args, **kwargs):
    return constant()


def resolve_model_data_config(*args, **kwargs):
    return constant()


def fast_collate(batch):
    return unknown(batch)


def __getattr__(name):
    return lambda *args, **kwargs: unknown(*args)
