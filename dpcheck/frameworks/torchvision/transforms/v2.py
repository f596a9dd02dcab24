from torchvision.transforms import (
    Compose,
    InterpolationMode,
    Lambda,
    RandomApply,
    RandomChoice,
    ToTensor,
    _Drawn,
    _Transform,
    functional,
)


def __getattr__(name):
    if (
        name.startswith("Random")
        or "Jitter" in name
        or "Augment" in name
        or name.endswith("Mix")
        or name.endswith("MixUp")
    ):
        return _Drawn
    return _Transform
