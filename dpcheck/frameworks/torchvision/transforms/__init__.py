"""Transforms keep what they are given an image of one size; those with `Random` in their name draw."""

from dpcheck_intrinsics import drawn, operation

from torchvision.transforms import functional


class Compose:
    def __init__(self, transforms):
        self.transforms = transforms

    def __call__(self, image, *args):
        for transform in self.transforms:
            if len(args) == 0:
                image = transform(image)
            else:
                image, *args = transform(image, *args)
        if len(args) == 0:
            return image
        return image, *args


class _Transform:
    def __init__(self, *args, **kwargs):
        pass

    def __call__(self, image, *args):
        made = operation("relu", [image])
        return made if len(args) == 0 else (made, *args)


class _Drawn(_Transform):
    def __call__(self, image, *args):
        made = operation("relu", [image]) * drawn("torch")
        return made if len(args) == 0 else (made, *args)


class Lambda:
    def __init__(self, lambd):
        self.lambd = lambd

    def __call__(self, image):
        return self.lambd(image)


class ToTensor(_Transform):
    pass


class RandomApply(Compose):
    def __init__(self, transforms, p=0.5):
        self.transforms = transforms


class RandomChoice(RandomApply):
    pass


class RandomOrder(RandomApply):
    pass


class InterpolationMode:
    NEAREST = "nearest"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"


def __getattr__(name):
    if name.startswith("Random") or "Jitter" in name or "Augment" in name or name.endswith("Mix"):
        return _Drawn
    return _Transform
