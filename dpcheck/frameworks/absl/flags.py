from dpcheck_intrinsics import local_option, option


class FlagValues:
    def __call__(self, argv=None):
        return argv

    def flag_values_dict(self):
        return vars(self)

    def mark_as_parsed(self):
        pass

    def __getattr__(self, name):
        return option(None)


class FlagHolder:
    def __init__(self, value):
        self.value = value


FLAGS = FlagValues()


def _defined(name, default, kind=None):
    value = local_option() if name == "local_rank" else option(default, kind)
    setattr(FLAGS, name, value)
    return FlagHolder(value)


def DEFINE_string(name, default=None, help=None, **kwargs):
    return _defined(name, default, str)


def DEFINE_integer(name, default=None, help=None, **kwargs):
    return _defined(name, default, int)


def DEFINE_float(name, default=None, help=None, **kwargs):
    return _defined(name, default, float)


def DEFINE_bool(name, default=None, help=None, **kwargs):
    return _defined(name, default, bool)


DEFINE_boolean = DEFINE_bool


def DEFINE_enum(name, default=None, enum_values=None, help=None, **kwargs):
    return _defined(name, default, str)


def DEFINE_list(name, default=None, help=None, **kwargs):
    return _defined(name, default)


DEFINE_multi_string = DEFINE_list
DEFINE_multi_integer = DEFINE_list


def mark_flag_as_required(name, *args, **kwargs):
    pass


def mark_flags_as_required(names, *args, **kwargs):
    pass
