"""Models: drawn weights, or the same ones on every rank where `weights` or `pretrained` says so."""

from dpcheck_intrinsics import certainly, constant, layer, load_state, pooled, unknown

from torch import nn
from torch.nn import Module


class _Model(Module):
    """A backbone and a head, under the names that scripts replace."""

    def __init__(self, weights=None, pretrained=False, **kwargs):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3)
        self.features = nn.Sequential(nn.Conv2d(3, 8, 3))
        self.bn1 = nn.BatchNorm2d(8)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(8, 8)
        self.classifier = nn.Sequential(nn.Linear(8, 8))
        self.head = nn.Linear(8, 8)
        self.heads = nn.Sequential(nn.Linear(8, 8))

    def forward(self, x, *args):
        return pooled(x)


class _Unnormalized(_Model):
    """One of the families that hold no BatchNorm."""

    def __init__(self, *args, **kwargs):
        super().__init__()
        self.bn1 = nn.Identity()


class _Detector(Module):
    """In training it returns a dictionary of losses, each normalized in its own way."""

    def __init__(self, *args, **kwargs):
        super().__init__()
        self.backbone = nn.Conv2d(3, 8, 3)
        self.roi_heads = constant()

    def forward(self, images, targets=None):
        made = unknown(images)
        return {"loss_classifier": made, "loss_box_reg": made}


class _Segmenter(Module):
    def __init__(self, *args, **kwargs):
        super().__init__()
        self.backbone = nn.Conv2d(3, 8, 3)
        self.classifier = nn.Sequential(nn.Conv2d(3, 8, 3))

    def forward(self, x):
        return {"out": layer(x), "aux": layer(x)}


def _made(kind, weights=None, pretrained=False, **kwargs):
    model = kind(weights, pretrained)
    if not (weights is None and certainly(not pretrained)):
        load_state(model, constant())
    return model


def get_model(name, *args, **config):
    return _made(_Model, **config)


class _Table:
    """`models.__dict__[arch]`."""

    def __getitem__(self, name):
        return lambda *args, weights=None, pretrained=False, **kwargs: _made(_Model, weights, pretrained)

    def keys(self):
        return [constant("str")]

    def __iter__(self):
        yield constant("str")


__dict__ = _Table()


class _Modules:
    """`models.detection`, `models.segmentation`, and the like."""

    def __init__(self, kind):
        self.kind = kind

    def __getattr__(self, name):
        kind = self.kind
        if name == "faster_rcnn" or name == "mask_rcnn" or name == "backbone_utils":
            return constant()
        return lambda *args, weights=None, pretrained=False, **kwargs: _made(kind, weights, pretrained)


detection = _Modules(_Detector)
segmentation = _Modules(_Segmenter)
video = _Modules(_Model)
quantization = _Modules(_Model)


def __getattr__(name):
    if name.endswith("_Weights"):
        return constant()
    kind = _Model
    if name.startswith("vit_") or name.startswith("swin") or name.startswith("convnext"):
        kind = _Unnormalized
    if name.startswith("alexnet") or name.startswith("squeezenet") or name.startswith("vgg") and not name.endswith("_bn"):
        kind = _Unnormalized
    return lambda *args, weights=None, pretrained=False, **kwargs: _made(
        kind, args[0] if len(args) > 0 else weights, pretrained
    )
