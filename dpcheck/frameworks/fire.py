"""`Fire` calls a function, or makes an object, with the user's options in place of its defaults."""

from dpcheck_intrinsics import call_with_options, constant, kind_of


def Fire(component=None, command=None, name=None, serialize=None):
    kind = kind_of(component)
    if kind == "mapping":
        for target in component.values():
            if constant("bool"):
                call_with_options(target)
    elif component is not None:
        return call_with_options(component)
