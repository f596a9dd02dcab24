def track(sequence, *args, **kwargs):
    yield from sequence


class Progress:
    def __init__(self, *args, **kwargs):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        return None

    def track(self, sequence, *args, **kwargs):
        yield from sequence

    def __getattr__(self, name):
        return _nothing


def _nothing(*args, **kwargs):
    return None


def __getattr__(name):
    return Progress
