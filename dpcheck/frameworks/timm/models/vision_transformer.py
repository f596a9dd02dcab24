from timm.models import create_model, register_model


def __getattr__(name):
    from timm.models import _Model

    return _Model
