"""Loggers write on rank 0."""


class Logger:
    def __init__(self, *args, save_dir=None, name=None, version=None, **kwargs):
        self.save_dir = save_dir
        self.name = name
        self.version = version
        self.log_dir = save_dir

    @property
    def experiment(self):
        return self

    def __getattr__(self, name):
        return _nothing


def _nothing(*args, **kwargs):
    return None


class _Known(Logger):
    pass


def __getattr__(name):
    return _Known
