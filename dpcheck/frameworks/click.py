"""Each option and argument is a value that the user chooses; the command is called with all of them."""

from dpcheck_intrinsics import certainly, constant, local_option, option as _option, partial


def _name(names):
    """The parameter that an option's value is handed to: the one name without dashes, else the longest."""
    chosen = None
    for name in names:
        if not name.startswith("-"):
            return name
        if chosen is None or name.startswith("--"):
            chosen = name
    return chosen.lstrip("-").split("/")[0].replace("-", "_").lower()


def option(*names, default=None, type=None, is_flag=False, **kwargs):
    name = _name(names)
    if name == "local_rank":
        value = local_option()
    elif certainly(is_flag) and default is None:
        value = _option(False, bool)
    else:
        value = _option(default, type)
    return lambda function: partial(function, [], {name: value})


def argument(*names, default=None, type=None, **kwargs):
    name = _name(names)
    return lambda function: partial(function, [], {name: _option(default, type)})


class Context:
    obj = {}
    args = []
    params = {}

    def ensure_object(self, kind):
        return self.obj

    def invoke(self, function, *args, **kwargs):
        return function(*args, **kwargs)

    def forward(self, function, *args, **kwargs):
        return function(*args, **kwargs)


def pass_context(function):
    return partial(function, [Context()], {})


pass_obj = pass_context


def command(name=None, cls=None, **kwargs):
    if callable(name):
        return name
    return lambda function: function


class Group:
    """A group's commands are called one at a time; which one is not known."""

    def __init__(self, function):
        self.function = function
        self.commands = []

    def command(self, *args, **kwargs):
        return self._added

    def _added(self, function):
        self.commands.append(function)
        return function

    def add_command(self, function, name=None):
        self.commands.append(function)

    def __call__(self, *args, **kwargs):
        self.function()
        for function in self.commands:
            if constant("bool"):
                function()


def group(name=None, **kwargs):
    if callable(name):
        return Group(name)
    return lambda function: Group(function)


def echo(*args, **kwargs):
    pass


secho = echo


class Path:
    def __init__(self, *args, **kwargs):
        pass


class Choice(Path):
    pass


class IntRange(Path):
    pass


class FloatRange(Path):
    pass


STRING = str
INT = int
FLOAT = float
BOOL = bool


def __getattr__(name):
    return lambda *args, **kwargs: constant()
