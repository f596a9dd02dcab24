"""The operating system: launchers hand ranks over in the environment; listings have no fixed order."""

from dpcheck_intrinsics import constant, environment, in_environment, now, unordered

name = "posix"
sep = "/"


class Environ:
    def get(self, key, default=None):
        return environment(key, default)

    def __getitem__(self, key):
        return environment(key)

    def __contains__(self, key):
        return in_environment(key)

    def __setitem__(self, key, value):
        pass

    def setdefault(self, key, value=None):
        return environment(key, value)

    def copy(self):
        return {}

    def keys(self):
        return [constant("str")]

    values = keys

    def items(self):
        return [(constant("str"), constant("str"))]

    def __iter__(self):
        yield constant("str")

    def update(self, *args, **kwargs):
        pass

    def pop(self, key, default=None):
        return environment(key, default)


environ = Environ()


def getenv(key, default=None):
    return environment(key, default)


def listdir(path="."):
    return unordered()


def scandir(path="."):
    return unordered()


def walk(top, **kwargs):
    return [(top, unordered(), unordered())]


def getpid():
    return now()


def cpu_count():
    return constant("int")


def makedirs(name, mode=511, exist_ok=False):
    pass


def mkdir(path, mode=511):
    pass


def _exit(status):
    raise SystemExit(status)


def abort():
    raise SystemExit(134)


def execv(path, args):
    raise SystemExit(0)  # another program goes on in this process


execve = execvp = execvpe = lambda path, args, env=None: execv(path, args)
execl = execle = execlp = execlpe = lambda path, *args: execv(path, args)


def __getattr__(name):
    return lambda *args, **kwargs: constant()
