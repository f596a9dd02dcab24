"""Logging changes nothing about a training run."""

from dpcheck_intrinsics import record, report

DEBUG = 10
INFO = 20
WARNING = 30
WARN = 30
ERROR = 40
CRITICAL = 50
NOTSET = 0


class Logger:
    def __init__(self, name=None, level=0):
        self.name = name
        self.level = level
        self.handlers = []
        self.logger = self
        self.propagate = True

    def isEnabledFor(self, level):
        return True

    def getEffectiveLevel(self):
        return self.level

    def setLevel(self, level):
        pass

    def addHandler(self, handler):
        pass

    def hasHandlers(self):
        return False

    def getChild(self, name):
        return self

    def info(self, *args, **kwargs):
        report(*args)

    debug = warning = warn = error = critical = log = exception = info

    def __getattr__(self, name):
        return _nothing


class Handler(Logger):
    pass


class StreamHandler(Handler):
    pass


class FileHandler(Handler):
    def __init__(self, filename, mode="a", *args, **kwargs):
        super().__init__()
        record("write", None, path=filename)


class NullHandler(Handler):
    pass


class Formatter:
    def __init__(self, *args, **kwargs):
        pass


class Filter(Formatter):
    pass


class LoggerAdapter(Logger):
    pass


handlers = Logger()
config = Logger()
root = Logger()


def _nothing(*args, **kwargs):
    return None


def info(*args, **kwargs):
    report(*args)


debug = warning = warn = error = critical = log = exception = info


def basicConfig(filename=None, **kwargs):
    if filename is not None:
        record("write", None, path=filename)


def getLogger(name=None):
    return Logger(name)


def __getattr__(name):
    return _nothing
