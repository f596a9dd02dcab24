from dpcheck_intrinsics import initialise


def zeros_(tensor):
    return initialise(tensor, drawn=False)


def ones_(tensor):
    return initialise(tensor, drawn=False)


def constant_(tensor, val):
    return initialise(tensor, drawn=False)


def eye_(tensor):
    return initialise(tensor, drawn=False)


def __getattr__(name):
    return lambda tensor, *args, generator=None, **kwargs: initialise(tensor, generator=generator)
