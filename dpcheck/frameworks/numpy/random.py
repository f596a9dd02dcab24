"""Draws from numpy's global random state, or from a generator of one's own."""

from dpcheck_intrinsics import drawn, kind_of, operation, seed as _seed, shuffled, unknown


class Generator:
    """`default_rng(seed)`, `RandomState(seed)`; without a seed each rank draws its own."""

    def __init__(self, seed=None):
        self.seed_value = seed
        self.fresh = True

    def seed(self, seed=None):
        self.seed_value = seed

    def random(self, size=None, *args, **kwargs):
        return drawn("numpy", generator=self, size=size)

    random_sample = random

    def rand(self, *size):
        return drawn("numpy", generator=self, size=size if size else None)

    randn = rand

    def integers(self, low, high=None, size=None, **kwargs):
        return drawn("numpy", generator=self, size=size)

    randint = integers
    random_integers = integers

    def uniform(self, low=0.0, high=1.0, size=None):
        return drawn("numpy", generator=self, size=size)

    normal = uniform
    laplace = uniform
    beta = uniform
    gamma = uniform
    lognormal = uniform

    def standard_normal(self, size=None, **kwargs):
        return drawn("numpy", generator=self, size=size)

    def poisson(self, lam=1.0, size=None):
        return drawn("numpy", generator=self, size=size)

    exponential = poisson
    geometric = poisson
    dirichlet = poisson

    def binomial(self, n, p, size=None):
        return drawn("numpy", generator=self, size=size)

    def choice(self, a, size=None, replace=True, p=None, **kwargs):
        return _chosen(a, drawn("numpy", generator=self, size=size, permutation=not replace))

    def permutation(self, x, axis=0):
        return _permuted(x, self)

    permuted = permutation

    def shuffle(self, x, axis=0):
        shuffled("numpy", x, generator=self)

    def spawn(self, n_children):
        return [self]

    def get_state(self):
        return self.seed_value

    def set_state(self, state):
        self.seed_value = unknown(state)

    def __getattr__(self, name):
        return lambda *args, size=None, **kwargs: drawn("numpy", generator=self, size=size)


RandomState = Generator
default_rng = Generator


def PCG64(seed=None):
    return seed


def SeedSequence(entropy=None, *args, **kwargs):
    return entropy


def _chosen(a, index):
    """Elements of an array or list; numbers below `a` when that is a number."""
    kind = kind_of(a)
    if kind == "number" or kind == "unknown":
        return index
    return a[index]


def _permuted(x, generator=None):
    """The numbers below `x` in random order, or the elements of `x`."""
    if kind_of(x) == "number":
        return drawn("numpy", generator=generator, size=x, permutation=True)
    order = drawn("numpy", generator=generator, size=len(x), permutation=True)
    return operation("clone", [x[order]])


def seed(seed=None):
    _seed("numpy", seed)


def get_state(*args):
    return None


def set_state(state):
    _seed("numpy", unknown(state))


def choice(a, size=None, replace=True, p=None):
    return _chosen(a, drawn("numpy", size=size, permutation=not replace))


def permutation(x):
    return _permuted(x)


def shuffle(x):
    shuffled("numpy", x)


def rand(*size):
    return drawn("numpy", size=size if size else None)


randn = rand


def randint(low, high=None, size=None, dtype=None):
    return drawn("numpy", size=size)


def random(size=None):
    return drawn("numpy", size=size)


random_sample = random
sample = random
standard_normal = random


def uniform(low=0.0, high=1.0, size=None):
    return drawn("numpy", size=size)


normal = uniform
beta = uniform


def __getattr__(name):
    return lambda *args, size=None, **kwargs: drawn("numpy", size=size)
