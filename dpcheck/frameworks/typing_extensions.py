"""See `typing`."""


class NamedTuple:
    def __post_init__(self):
        setattr(self, "%tuple", getattr(self, "%fields"))

    def __iter__(self):
        for name in getattr(self, "%fields"):
            yield getattr(self, name)

    def _asdict(self):
        return vars(self)

    def _replace(self, **changes):
        result = type(self)(**vars(self))
        for name, value in changes.items():
            setattr(result, name, value)
        return result


class TypedDict:
    def __new__(cls, *args, **kwargs):
        return dict(*args, **kwargs)


def cast(kind, value):
    return value


def NewType(name, kind):
    return lambda value: value


def overload(function):
    return function


def no_type_check(function):
    return function


def final(thing):
    return thing


def override(function):
    return function


def runtime_checkable(cls):
    return cls


TYPE_CHECKING = False
