from dpcheck_intrinsics import call_with_options

from argparse import ArgumentParser as _Parser, Namespace
from dataclasses import field


class ArgumentParser(_Parser):
    """Dataclasses added by `add_arguments` become attributes, their fields options."""

    def add_arguments(self, dataclass, dest=None, **kwargs):
        self.options[dest] = call_with_options(dataclass)


def parse(config_class, *args, **kwargs):
    return call_with_options(config_class)
