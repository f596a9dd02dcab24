"""The trainer that is at work. Modules and data modules find it here: they do not hold it as a part of theirs."""

from dpcheck_intrinsics import caller_arguments, set_attributes

_trainer = [None]


def begin(trainer):
    _trainer[0] = trainer


def current():
    return _trainer[0]


class Hyperparameters:
    def __init__(self, values):
        set_attributes(self, values)

    def __getitem__(self, name):
        return getattr(self, name)

    def __setitem__(self, name, value):
        setattr(self, name, value)

    def __contains__(self, name):
        return hasattr(self, name)

    def get(self, name, default=None):
        return getattr(self, name, default)

    def keys(self):
        return vars(self).keys()

    def values(self):
        return vars(self).values()

    def items(self):
        return vars(self).items()

    def update(self, values):
        set_attributes(self, values)


class HasHyperparameters:
    @property
    def hparams(self):
        return getattr(self, "held_hparams", Hyperparameters({}))

    def save_hyperparameters(self, *args, ignore=None, logger=True, frame=None):
        """Without names: the arguments of the constructor that calls this."""
        values = caller_arguments()
        if len(args) == 1 and not isinstance(args[0], str):
            values = args[0] if isinstance(args[0], dict) else vars(args[0])
        set_attributes(self, {"held_hparams": Hyperparameters(values)})
