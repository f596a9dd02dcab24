from dpcheck_intrinsics import report


class SummaryWriter:
    """Each process writes a file of its own: its name tells the machine and the process."""

    def __init__(self, *args, **kwargs):
        pass

    def add_scalar(self, tag, scalar_value, *args, **kwargs):
        report(tag, scalar_value)

    def __getattr__(self, name):
        return lambda *args, **kwargs: None
