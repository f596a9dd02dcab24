"""A generator that is read ahead of time."""


def BackgroundGenerator(generator, max_prefetch=1):
    yield from generator


def background(max_prefetch=1):
    return lambda function: function
