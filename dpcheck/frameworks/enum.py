"""A member of an enumeration is its value: equal members are equal constants."""


class Enum:
    def __new__(cls, value):
        return value


class IntEnum(Enum):
    pass


class StrEnum(Enum):
    pass


class Flag(Enum):
    pass


class IntFlag(Enum):
    pass


_last = [0]


def auto():
    _last[0] = _last[0] + 1
    return _last[0]


def unique(cls):
    return cls
