from dpcheck_intrinsics import picked, record, unknown


def chain(*iterables):
    for iterable in iterables:
        yield from iterable


def _from_iterable(iterables):
    for iterable in iterables:
        yield from iterable


chain.from_iterable = _from_iterable


def cycle(iterable):
    while True:
        yield from iterable


def count(start=0, step=1):
    i = start
    while True:
        yield i
        i += step


def islice(iterable, *bounds):
    for item in iterable:
        record("limit", iterable, stop=bounds[0] if len(bounds) == 1 else bounds[1])
        yield picked(item, iterable, *bounds)


def repeat(thing, times=None):
    while True:
        yield thing


def zip_longest(*iterables, fillvalue=None):
    return zip(*iterables)


def accumulate(iterable, *args, **kwargs):
    return iterable


def __getattr__(name):
    return lambda *args, **kwargs: unknown(*args)
