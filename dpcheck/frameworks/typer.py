"""A command's parameters are options with their defaults."""

from dpcheck_intrinsics import call_with_options, constant, option


def Option(default=None, *names, **kwargs):
    return option(default)


Argument = Option


class Typer:
    def __init__(self, *args, **kwargs):
        self.commands = []

    def command(self, *args, **kwargs):
        return self._added

    def callback(self, *args, **kwargs):
        return self._added

    def _added(self, function):
        self.commands.append(function)
        return function

    def add_typer(self, other, *args, **kwargs):
        self.commands.extend(other.commands)

    def __call__(self, *args, **kwargs):
        if len(self.commands) == 1:
            call_with_options(self.commands[0])
        else:
            for function in self.commands:
                if constant("bool"):
                    call_with_options(function)


def run(function):
    call_with_options(function)


def echo(*args, **kwargs):
    pass


def __getattr__(name):
    return lambda *args, **kwargs: constant()
