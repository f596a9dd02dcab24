"""Splits: drawn from numpy's global random state unless `random_state` says otherwise."""

from dpcheck_intrinsics import drawn, record

from numpy.random import Generator


def _order(array, random_state):
    generator = None
    if random_state is not None:
        generator = Generator(random_state)
    record("split", array, generator=generator, library="numpy")
    return drawn("numpy", generator=generator, size=len(array), permutation=True)


def train_test_split(*arrays, test_size=None, train_size=None, random_state=None, shuffle=True, stratify=None):
    if not shuffle:
        return [part for array in arrays for part in (array, array)]
    order = _order(arrays[0], random_state)
    return [part for array in arrays for part in (array[order], array[order])]


class KFold:
    def __init__(self, n_splits=5, *, shuffle=False, random_state=None):
        self.shuffle = shuffle
        self.random_state = random_state

    def split(self, X, y=None, groups=None):
        if self.shuffle:
            order = _order(X, self.random_state)
        else:
            order = range(len(X))
        yield order, order

    def get_n_splits(self, *args, **kwargs):
        return 5


class StratifiedKFold(KFold):
    pass


class GroupKFold(KFold):
    pass


class ShuffleSplit(KFold):
    def __init__(self, n_splits=10, *, test_size=None, train_size=None, random_state=None):
        self.shuffle = True
        self.random_state = random_state


class StratifiedShuffleSplit(ShuffleSplit):
    pass
