from dpcheck_intrinsics import local_option, option, set_attributes


class Namespace:
    def __init__(self, **kwargs):
        set_attributes(self, kwargs)


class ArgumentParser:
    def __init__(self, *args, **kwargs):
        self.options = {}
        for parent in kwargs.get("parents", []):
            self.options.update(parent.options)

    def add_argument(self, *names, dest=None, default=None, action=None, type=None, **kwargs):
        target = dest
        if target is None:
            for name in names:
                if target is None or name.startswith("--") and not target.startswith("--"):
                    target = name
            target = target.lstrip("-").replace("-", "_")
        if action == "store_true":
            self.options[target] = option(False, bool)
        elif action == "store_false":
            self.options[target] = option(True, bool)
        elif action == "store_const":
            self.options[target] = option(default)
        elif target == "local_rank" or target == "local-rank":
            self.options[target] = local_option()
        else:
            self.options[target] = option(default, type)

    def add_argument_group(self, *args, **kwargs):
        return self

    def add_mutually_exclusive_group(self, *args, **kwargs):
        return self

    def add_subparsers(self, *args, **kwargs):
        return self

    def add_parser(self, *args, **kwargs):
        return self

    def set_defaults(self, **kwargs):
        for key, value in kwargs.items():
            self.options[key] = option(value)

    def parse_args(self, args=None, namespace=None):
        result = Namespace()
        set_attributes(result, self.options)
        return result

    def parse_known_args(self, args=None, namespace=None):
        return self.parse_args(), []

    def print_help(self):
        pass

    def error(self, message):
        raise SystemExit(2)

    def exit(self, status=0, message=None):
        raise SystemExit(status)

    def print_usage(self, file=None):
        pass

    def format_help(self):
        return ""

    def get_default(self, dest):
        return self.options.get(dest)

    def parse_intermixed_args(self, args=None, namespace=None):
        return self.parse_args()

    def register(self, *args, **kwargs):
        pass


class ArgumentDefaultsHelpFormatter:
    pass


class BooleanOptionalAction:
    pass


class RawTextHelpFormatter:
    pass


class RawDescriptionHelpFormatter:
    pass
