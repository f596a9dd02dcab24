"""Functions and classes whose parameters are options; of several, one is called, which one is not known."""

from argparse import ArgumentParser as _Parser, Namespace

from dpcheck_intrinsics import call_with_options, constant, kind_of


class ArgumentParser(_Parser):
    def add_class_arguments(self, theclass, nested_key=None, *args, **kwargs):
        pass

    def add_dataclass_arguments(self, theclass, nested_key=None, *args, **kwargs):
        self.options[nested_key] = call_with_options(theclass)

    def add_function_arguments(self, function, *args, **kwargs):
        pass

    def link_arguments(self, *args, **kwargs):
        pass


def CLI(components=None, *args, **kwargs):
    kind = kind_of(components)
    if kind == "mapping":
        for target in components.values():
            if kind_of(target) != "text" and constant("bool"):
                CLI(target)
    elif kind == "sequence":
        for target in components:
            if constant("bool"):
                call_with_options(target)
    elif components is not None:
        return call_with_options(components)


auto_cli = CLI


def set_docstring_parse_options(*args, **kwargs):
    pass


def set_config_read_mode(*args, **kwargs):
    pass
