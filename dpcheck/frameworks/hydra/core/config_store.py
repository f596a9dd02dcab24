from dpcheck_intrinsics import call_with_options, kind_of, option

_store = {}


class ConfigStore:
    @classmethod
    def instance(cls):
        return cls()

    def store(self, name=None, node=None, group=None, **kwargs):
        if group is None:
            _store[name] = node


def config_of(name):
    """The dataclass that was stored by that name, its fields as options; else something unknown but common to all."""
    if name in _store:
        node = _store[name]
        return call_with_options(node) if kind_of(node) == "unknown" else node
    return option(None)
