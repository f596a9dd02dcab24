"""TorchMetrics: `compute` brings together what all ranks have seen, so every rank must call it."""

from dpcheck_intrinsics import all_reduce, certainly, kind_of, set_attributes, unknown

from torchmetrics import functional

__submodules__ = True


class _Counter:
    def to(self, *args, **kwargs):
        return self

    cuda = to
    cpu = to
    train = to
    eval = to

    def reset(self):
        pass

    def clone(self, prefix=None, postfix=None):
        return self


class Metric(_Counter):
    """A metric of one's own derives from this: its states are reduced before its `compute` runs."""

    def __init__(self, sync_on_compute=True, dist_sync_on_step=False, **kwargs):
        set_attributes(self, {"states": [], "syncs": not certainly(not sync_on_compute)})
        own = self.compute

        def synced():
            if self.syncs:
                for name in self.states:
                    state = all_reduce(getattr(self, name), "sum", in_place=False, said="compute, which reduces the state")
                    set_attributes(self, {name: state})
            return own()

        set_attributes(self, {"compute": synced})

    def add_state(self, name, default, dist_reduce_fx=None, persistent=False):
        set_attributes(self, {name: default})
        self.states.append(name)

    def update(self, *args, **kwargs):
        pass

    def compute(self):
        return unknown()

    def __call__(self, *args, **kwargs):
        """This rank's value for these arguments alone."""
        self.update(*args, **kwargs)
        return unknown(*args)

    def forward(self, *args, **kwargs):
        return self(*args, **kwargs)

    def plot(self, *args, **kwargs):
        return unknown()


class _Known(Metric):
    """One of the library's metrics."""

    def __init__(self, *args, sync_on_compute=True, **kwargs):
        super().__init__(sync_on_compute=sync_on_compute)
        self.add_state("seen", 0.0)

    def update(self, *args, **kwargs):
        set_attributes(self, {"seen": unknown(self.seen, *args)})

    def compute(self):
        return self.seen


class MeanMetric(_Known):
    pass


class SumMetric(_Known):
    pass


class MetricCollection(_Counter):
    def __init__(self, metrics=None, *more, prefix=None, postfix=None, **kwargs):
        if kind_of(metrics) == "mapping":
            table = dict(metrics)
        elif kind_of(metrics) == "sequence":
            table = {str(number): metric for number, metric in enumerate(metrics)}
        else:
            table = {str(number): metric for number, metric in enumerate([metrics, *more])}
        set_attributes(self, {"table": table})

    def update(self, *args, **kwargs):
        for metric in self.table.values():
            metric.update(*args, **kwargs)

    def compute(self):
        return {name: metric.compute() for name, metric in self.table.items()}

    def __call__(self, *args, **kwargs):
        return {name: metric(*args, **kwargs) for name, metric in self.table.items()}

    def items(self):
        return self.table.items()

    def values(self):
        return self.table.values()

    def keys(self):
        return self.table.keys()

    def __getitem__(self, name):
        return self.table[name]


def __getattr__(name):
    return _Known
