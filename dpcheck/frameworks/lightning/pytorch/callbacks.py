"""Callbacks. The library's own change nothing that ranks must share: decisions to stop are agreed on by all of them."""

from dpcheck_intrinsics import record


class Callback:
    def __init__(self, *args, **kwargs):
        pass

    def setup(self, trainer, pl_module, stage=None):
        pass

    def __getattr__(self, name):
        return _nothing


def _nothing(*args, **kwargs):
    return None


class ModelCheckpoint(Callback):
    def __init__(self, *args, monitor=None, dirpath=None, **kwargs):
        self.monitor = monitor
        record("monitor", self, name=monitor, decides="which weights are kept")
        self.dirpath = dirpath
        self.best_model_path = ""
        self.best_model_score = None
        self.last_model_path = ""


class EarlyStopping(Callback):
    def __init__(self, monitor=None, *args, **kwargs):
        self.monitor = monitor
        record("monitor", self, name=monitor, decides="when training stops")
        self.stopped_epoch = 0


class _Known(Callback):
    pass


def __getattr__(name):
    return _Known
