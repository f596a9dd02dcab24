from matplotlib import pyplot


def __getattr__(name):
    return lambda *args, **kwargs: None
