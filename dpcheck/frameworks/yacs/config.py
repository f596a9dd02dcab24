"""A tree of settings that the script writes down; a file or the command line may change each of them."""

from dpcheck_intrinsics import certainly, kind_of, option, read_from, set_attributes


class CfgNode:
    def __init__(self, init_dict=None, *args, **kwargs):
        if init_dict is not None:
            set_attributes(self, init_dict)

    def merge_from_file(self, cfg_filename):
        _open(self)

    def merge_from_list(self, cfg_list):
        _open(self)

    def merge_from_other_cfg(self, cfg_other):
        _open(self)

    def freeze(self):
        pass

    def defrost(self):
        pass

    def clone(self):
        return self

    def dump(self, **kwargs):
        return read_from("", "str")

    def get(self, name, default=None):
        return getattr(self, name, default)

    def __getitem__(self, name):
        return getattr(self, name)

    def __setitem__(self, name, value):
        setattr(self, name, value)

    def __contains__(self, name):
        return hasattr(self, name)

    def keys(self):
        return vars(self).keys()

    def items(self):
        return vars(self).items()

    def __getattr__(self, name):
        return option(None)

    @classmethod
    def load_cfg(cls, cfg_file_obj_or_str):
        return cls()


def _open(node):
    """From here on the values are the user's options."""
    for name, value in vars(node).items():
        if certainly(isinstance(value, CfgNode)):
            _open(value)
        elif kind_of(value) != "sequence":
            setattr(node, name, option(value))


def load_cfg(cfg_file_obj_or_str):
    return CfgNode()
