from dpcheck_intrinsics import copy


class Field:
    def __init__(self, default=None, default_factory=None):
        self.default = default
        self.default_factory = default_factory

    def make(self):
        if self.default_factory is not None:
            return self.default_factory()
        return self.default


def dataclass(cls=None, **kwargs):
    if cls is None:
        return lambda cls: cls
    return cls


def field(*, default=None, default_factory=None, **kwargs):
    return Field(default, default_factory)


def asdict(instance):
    return vars(instance)


def replace(instance, **changes):
    result = copy(instance)
    for key, value in changes.items():
        setattr(result, key, value)
    return result


def fields(instance):
    return []
