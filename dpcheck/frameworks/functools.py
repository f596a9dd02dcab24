from dpcheck_intrinsics import named_like, partial as _partial, unknown


def partial(function, *args, **kwargs):
    return _partial(function, args, kwargs)


def wraps(function):
    return lambda wrapper: named_like(wrapper, function)


def lru_cache(*args, **kwargs):
    if len(args) == 1 and callable(args[0]):
        return args[0]
    return lambda function: function


def cache(function):
    return function


def cached_property(function):
    return property(function)


def total_ordering(cls):
    return cls


def reduce(function, sequence, *initial):
    return unknown(sequence)
