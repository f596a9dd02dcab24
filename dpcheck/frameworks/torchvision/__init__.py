"""torchvision: data sets of images, drawn transforms, models with drawn weights."""

from torchvision import datasets, io, models, ops, transforms, utils

__version__ = "0.28.0"


def set_image_backend(backend):
    pass


def get_image_backend():
    return "PIL"
