class Callback:
    def __init__(self, *args, **kwargs):
        pass

    def __getattr__(self, name):
        return _nothing


Algorithm = Callback


def _nothing(*args, **kwargs):
    return None


class DataSpec:
    def __init__(self, dataloader=None, *args, **kwargs):
        self.dataloader = dataloader
