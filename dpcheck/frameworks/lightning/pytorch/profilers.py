class _Profiler:
    def __init__(self, *args, **kwargs):
        pass


def __getattr__(name):
    return _Profiler
