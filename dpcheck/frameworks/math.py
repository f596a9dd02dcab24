"""Numbers of a training script: a count that is rounded is still that count."""

from dpcheck_intrinsics import operation

pi = 3.141592653589793
e = 2.718281828459045
tau = 6.283185307179586
inf = float("inf")
nan = float("nan")


def _kept(x):
    return operation("item", [x])


def ceil(x):
    if isinstance(x, int):
        return x
    return -int(-x // 1) if isinstance(x, float) else _kept(x)


def floor(x):
    if isinstance(x, int):
        return x
    return int(x // 1) if isinstance(x, float) else _kept(x)


trunc = floor


def fabs(x):
    return abs(x)


def fsum(numbers):
    return sum(numbers)


def isnan(x):
    return operation("isnan", [operation("item", [x])])


isinf = isnan
isfinite = isnan


def prod(numbers, start=1):
    for number in numbers:
        start = start * number
    return start


def __getattr__(name):
    return lambda *args: operation("item", [operation(name, args)])
