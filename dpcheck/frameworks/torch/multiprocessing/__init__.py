from dpcheck_intrinsics import launch


def spawn(fn, args=(), nprocs=1, join=True, daemon=False, start_method="spawn"):
    launch(fn, args, nprocs)


def start_processes(fn, args=(), nprocs=1, **kwargs):
    launch(fn, args, nprocs)


class Process:
    def __init__(self, group=None, target=None, name=None, args=(), kwargs={}, daemon=None):
        self.target = target
        self.args = args
        self.kwargs = kwargs

    def start(self):
        launch(self.target, self.args, ranked=False, kwargs=self.kwargs)

    def join(self, timeout=None):
        pass


def set_start_method(method, force=False):
    pass


def get_context(method=None):
    return _Context()


class _Context:
    Process = Process

    def SimpleQueue(self):
        return []

    def Queue(self):
        return []


def set_sharing_strategy(strategy):
    pass


def cpu_count():
    return 8
