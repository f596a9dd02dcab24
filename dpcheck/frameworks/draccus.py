from dpcheck_intrinsics import call_with_options


def wrap(config_path=None):
    return lambda function: lambda *args: function(*args) if len(args) > 0 else call_with_options(function)


def parse(config_class=None, *args, **kwargs):
    return call_with_options(config_class)
