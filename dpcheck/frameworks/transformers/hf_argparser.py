from dpcheck_intrinsics import field_options, kind_of

from argparse import ArgumentParser


def HfArg(*, aliases=None, help=None, default=None, default_factory=None, metadata=None, **kwargs):
    from dataclasses import field

    return field(default=default, default_factory=default_factory)


class HfArgumentParser(ArgumentParser):
    """The fields of the dataclasses are options of the script, with the fields' defaults."""

    def __init__(self, dataclass_types=None, **kwargs):
        self.options = {}
        if kind_of(dataclass_types) == "sequence":
            self.dataclass_types = list(dataclass_types)
        else:
            self.dataclass_types = [dataclass_types]

    def parse_args_into_dataclasses(
        self, args=None, return_remaining_strings=False, look_for_args_file=True, args_filename=None, **kwargs
    ):
        made = [kind(**field_options(kind)) for kind in self.dataclass_types]
        if return_remaining_strings:
            made.append([])
        return tuple(made)

    def parse_json_file(self, json_file, allow_extra_keys=False):
        return self.parse_args_into_dataclasses()

    parse_yaml_file = parse_json_file
    parse_dict = parse_json_file
