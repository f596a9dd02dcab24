from dpcheck_intrinsics import drawn, seed as _seed, shuffled


class Random:
    def __init__(self, x=None):
        self.seed_value = x
        self.fresh = True

    def seed(self, a=None):
        self.seed_value = a

    def random(self):
        return drawn("python", generator=self)

    def randint(self, a, b):
        return drawn("python", generator=self)

    def randrange(self, *args):
        return drawn("python", generator=self)

    def uniform(self, a, b):
        return drawn("python", generator=self)

    def gauss(self, mu=0.0, sigma=1.0):
        return drawn("python", generator=self)

    def shuffle(self, x):
        shuffled("python", x, generator=self)

    def choice(self, seq):
        return seq[drawn("python", generator=self)]

    def sample(self, population, k, **kwargs):
        return [population[drawn("python", generator=self, permutation=True)] for _ in range(k)]

    def choices(self, population, weights=None, *, cum_weights=None, k=1):
        return [population[drawn("python", generator=self)] for _ in range(k)]

    def getstate(self):
        return None

    def setstate(self, state):
        pass


def seed(a=None, version=2):
    _seed("python", a)


def random():
    return drawn("python")


def randint(a, b):
    return drawn("python")


def randrange(*args):
    return drawn("python")


def uniform(a, b):
    return drawn("python")


def gauss(mu=0.0, sigma=1.0):
    return drawn("python")


def shuffle(x):
    shuffled("python", x)


def choice(seq):
    return seq[drawn("python")]


def sample(population, k, **kwargs):
    return [population[drawn("python", permutation=True)] for _ in range(k)]


def choices(population, weights=None, *, cum_weights=None, k=1):
    return [population[drawn("python")] for _ in range(k)]


def getstate():
    return None


def setstate(state):
    pass
