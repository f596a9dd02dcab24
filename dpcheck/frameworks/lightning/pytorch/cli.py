"""`LightningCLI` makes module, data module and trainer of the user's options and fits them."""

from dpcheck_intrinsics import call_with_options, unknown

from lightning.pytorch.trainer import Trainer


class LightningArgumentParser:
    def __getattr__(self, name):
        return lambda *args, **kwargs: None


class LightningCLI:
    def __init__(
        self,
        model_class=None,
        datamodule_class=None,
        *args,
        trainer_class=Trainer,
        trainer_defaults=None,
        run=True,
        **kwargs,
    ):
        self.parser = LightningArgumentParser()
        self.config = unknown()
        self.datamodule = call_with_options(datamodule_class) if datamodule_class is not None else None
        if model_class is None:
            self.model = unknown()
        else:
            self.model = call_with_options(model_class)
        self.trainer = trainer_class(**(trainer_defaults if trainer_defaults is not None else {}))
        self.add_arguments_to_parser(self.parser)
        self.before_fit()
        if run and model_class is not None:
            self.trainer.fit(self.model, datamodule=self.datamodule)
        self.after_fit()

    def add_arguments_to_parser(self, parser):
        pass

    def before_fit(self):
        pass

    def after_fit(self):
        pass


def SaveConfigCallback(*args, **kwargs):
    return unknown()
