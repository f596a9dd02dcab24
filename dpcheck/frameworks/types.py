from dpcheck_intrinsics import set_attributes, unknown


class SimpleNamespace:
    def __init__(self, mapping=None, **kwargs):
        if mapping is not None:
            set_attributes(self, mapping)
        set_attributes(self, kwargs)


def MethodType(function, instance):
    return lambda *args, **kwargs: function(instance, *args, **kwargs)


def coroutine(function):
    return function


def __getattr__(name):
    return unknown()
