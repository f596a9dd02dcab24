from dpcheck_intrinsics import certainly, constant, layer, load_state, pooled

from torch import nn
from torch.nn import Module


class _Model(Module):
    default_cfg = constant()
    pretrained_cfg = constant()
    num_features = constant("int")
    num_classes = constant("int")
    embed_dim = constant("int")

    def __init__(self, *args, **kwargs):
        super().__init__()
        self.patch_embed = nn.Conv2d(3, 8, 3)
        self.blocks = nn.Sequential(nn.Linear(8, 8))
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, 8)
        self.fc = self.head
        self.classifier = self.head

    def forward(self, x, *args, **kwargs):
        return pooled(x)

    def forward_features(self, x, *args, **kwargs):
        return layer(x)

    def forward_head(self, x, *args, **kwargs):
        return pooled(x)

    def get_classifier(self):
        return self.head

    def reset_classifier(self, *args, **kwargs):
        self.head = nn.Linear(8, 8)

    def set_grad_checkpointing(self, enable=True):
        pass

    def no_weight_decay(self):
        return []


def create_model(model_name, pretrained=False, pretrained_cfg=None, checkpoint_path="", **kwargs):
    model = _Model()
    if not (certainly(not pretrained) and certainly(checkpoint_path == "")):
        load_state(model, constant())
    return model


def list_models(*args, **kwargs):
    return [constant("str")]


def load_checkpoint(model, checkpoint_path, *args, **kwargs):
    load_state(model, constant())


def resume_checkpoint(model, checkpoint_path, *args, **kwargs):
    load_state(model, constant())
    return constant("int")


def register_model(function):
    return function


def safe_model_name(model_name, *args):
    return model_name


def model_parameters(model, exclude_head=False):
    return model.parameters()


def __getattr__(name):
    if name[0].isupper():
        return _Model
    return lambda *args, pretrained=False, **kwargs: create_model(name, pretrained)
