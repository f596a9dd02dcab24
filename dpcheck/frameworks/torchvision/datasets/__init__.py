"""Indexed images of one size and a label each; collections for detection hold a target of their own kind."""

from dpcheck_intrinsics import constant, operation, read_from, record, unknown

from torch.utils.data import Dataset


def _opened(root, download):
    if download:
        record("download", None, path=root)
    else:
        record("read", None, path=root)


class VisionDataset(Dataset):
    def __init__(
        self, root=None, *args, transform=None, target_transform=None, transforms=None, download=False, **kwargs
    ):
        _opened(root, download)
        self.root = root
        self.transform = transform
        self.target_transform = target_transform
        self.transforms = transforms
        self.classes = [constant("str")]
        self.class_to_idx = {}

    def __len__(self):
        return constant("int")

    def extra_repr(self):
        return ""


class _Labelled(VisionDataset):
    def __init__(self, root=None, *args, transform=None, target_transform=None, download=False, **kwargs):
        _opened(root, download)
        self.root = root
        self.transform = transform
        self.target_transform = target_transform
        self.images = operation("relu", [operation("zeros", [8, 3, 8, 8])])
        self.labels = [read_from(constant("int"), "int", clean=True) for _ in range(constant("int"))]
        self.targets = self.labels
        self.data = self.images
        self.imgs = [(constant("str"), constant("int")) for _ in range(constant("int"))]
        self.samples = self.imgs
        self.classes = [constant("str") for _ in range(constant("int"))]
        self.class_to_idx = {}

    def __getitem__(self, index):
        image = self.images[index]
        target = self.labels[index]
        if self.transform is not None:
            image = self.transform(image)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return image, target


class ImageFolder(_Labelled):
    pass


class DatasetFolder(_Labelled):
    def __init__(self, root, loader=None, *args, transform=None, target_transform=None, **kwargs):
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.loader = loader


class FakeData(_Labelled):
    def __init__(
        self, size=1000, image_size=(3, 224, 224), num_classes=10, transform=None, target_transform=None, **kwargs
    ):
        super().__init__(None, transform=transform, target_transform=target_transform)


class MNIST(_Labelled):
    pass


class FashionMNIST(_Labelled):
    pass


class KMNIST(_Labelled):
    pass


class EMNIST(_Labelled):
    pass


class CIFAR10(_Labelled):
    pass


class CIFAR100(_Labelled):
    pass


class SVHN(_Labelled):
    pass


class STL10(_Labelled):
    pass


class ImageNet(_Labelled):
    pass


class INaturalist(_Labelled):
    pass


class Food101(_Labelled):
    pass


class Flowers102(_Labelled):
    pass


class OxfordIIITPet(_Labelled):
    pass


class StanfordCars(_Labelled):
    pass


class CelebA(_Labelled):
    pass


class CocoDetection(VisionDataset):
    """An image and a list of annotations: as many as it happens to have."""

    ids = [constant("int")]
    coco = constant()

    def __getitem__(self, index):
        return unknown(index), unknown(index)


class CocoCaptions(CocoDetection):
    pass


class VOCDetection(CocoDetection):
    pass


class VOCSegmentation(CocoDetection):
    pass


class Kinetics(CocoDetection):
    pass


def wrap_dataset_for_transforms_v2(dataset, *args, **kwargs):
    return dataset


def __getattr__(name):
    return CocoDetection
