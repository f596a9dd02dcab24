from dpcheck_intrinsics import now


def time():
    return now()


def perf_counter():
    return now()


def monotonic():
    return now()


def time_ns():
    return now()


def sleep(seconds):
    pass


def strftime(*args):
    return ""


def __getattr__(name):
    return lambda *args, **kwargs: now()
