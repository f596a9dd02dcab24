from dpcheck_intrinsics import read_from

from torchvision.datasets import DatasetFolder, ImageFolder

IMG_EXTENSIONS = (".jpg", ".jpeg", ".png")


def default_loader(path):
    return read_from(path, "tensor")


pil_loader = default_loader


def find_classes(directory):
    return [read_from(directory, "str")], {}


def make_dataset(directory, *args, **kwargs):
    return [(read_from(directory, "str"), 0)]
