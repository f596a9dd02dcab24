from dpcheck_intrinsics import constant, option

argv = [option("", "str") for _ in range(option(1, "int"))]
path = []
modules = {}
platform = "linux"
version = "3.11"
version_info = (3, 11, 0)
maxsize = 9223372036854775807
executable = "python"
byteorder = "little"


class _Stream:
    def write(self, text):
        pass

    def flush(self):
        pass

    def isatty(self):
        return constant("bool")

    def reconfigure(self, *args, **kwargs):
        pass


stdout = _Stream()
stderr = _Stream()
stdin = _Stream()


def exit(status=None):
    raise SystemExit(status)


def getsizeof(thing):
    return constant("int")


def __getattr__(name):
    return lambda *args, **kwargs: constant()
