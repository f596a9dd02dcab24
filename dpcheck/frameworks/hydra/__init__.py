"""`hydra.main` calls the function with a configuration of the user's: the same on every rank."""

from hydra.core.config_store import config_of


def main(config_path=None, config_name=None, version_base=None):
    return lambda function: lambda *args: function(args[0] if len(args) > 0 else config_of(config_name))


def initialize(*args, **kwargs):
    pass


initialize_config_dir = initialize


def compose(config_name=None, overrides=None, **kwargs):
    return config_of(config_name)
