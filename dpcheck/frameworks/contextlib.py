from dpcheck_intrinsics import enter, leave


def contextmanager(function):
    return function


def asynccontextmanager(function):
    return function


class nullcontext:
    def __init__(self, enter_result=None):
        self.enter_result = enter_result

    def __enter__(self):
        return self.enter_result

    def __exit__(self, *exception):
        return None


class suppress(nullcontext):
    def __init__(self, *exceptions):
        self.enter_result = None

    def __exit__(self, *exception):
        return True


class closing:
    def __init__(self, thing):
        self.thing = thing

    def __enter__(self):
        return self.thing

    def __exit__(self, *exception):
        return None


class ExitStack:
    def __enter__(self):
        return self

    def __exit__(self, *exception):
        leave(self)

    close = __exit__

    def enter_context(self, manager):
        return enter(self, manager)

    def callback(self, function, *args, **kwargs):
        pass


class AsyncExitStack(ExitStack):
    pass


def redirect_stdout(target):
    return nullcontext(target)
