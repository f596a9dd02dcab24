"""Python's containers."""

from dpcheck_intrinsics import set_attributes


def OrderedDict(*args, **kwargs):
    return dict(*args, **kwargs)


def Counter(iterable=None):
    return defaultdict(int)


def deque(iterable=(), maxlen=None):
    return list(iterable)


class defaultdict:
    def __init__(self, default_factory=None, *args, **kwargs):
        self.default_factory = default_factory
        self.table = dict(*args, **kwargs)

    def __getitem__(self, key):
        if key not in self.table:
            self.table[key] = self.default_factory()
        return self.table[key]

    def __setitem__(self, key, value):
        self.table[key] = value

    def __contains__(self, key):
        return key in self.table

    def __iter__(self):
        yield from self.table

    def __len__(self):
        return len(self.table)

    def get(self, key, default=None):
        return self.table.get(key, default)

    def keys(self):
        return self.table.keys()

    def values(self):
        return self.table.values()

    def items(self):
        return self.table.items()

    def pop(self, key, default=None):
        return self.table.pop(key, default)

    def update(self, *args, **kwargs):
        self.table.update(*args, **kwargs)

    def setdefault(self, key, default=None):
        return self.table.setdefault(key, default)

    def most_common(self, n=None):
        return list(self.table.items())

    def clear(self):
        self.table = {}

    def copy(self):
        return self


class ChainMap(defaultdict):
    pass


class UserDict(defaultdict):
    def __init__(self, dict=None, **kwargs):
        self.table = {} if dict is None else dict
        self.table.update(kwargs)
        self.data = self.table


def namedtuple(typename, field_names, *, rename=False, defaults=None, module=None):
    if isinstance(field_names, str):
        names = field_names.replace(",", " ").split()
    else:
        names = list(field_names)

    class Made:
        def __init__(self, *args, **kwargs):
            for name, value in zip(names, args):
                setattr(self, name, value)
            set_attributes(self, kwargs)
            setattr(self, "%tuple", names)

        def __iter__(self):
            for name in names:
                yield getattr(self, name)

        def __len__(self):
            return len(names)

        def _asdict(self):
            return {name: getattr(self, name) for name in names}

        def _replace(self, **kwargs):
            return Made(**{**self._asdict(), **kwargs})

    Made._fields = names
    return Made
