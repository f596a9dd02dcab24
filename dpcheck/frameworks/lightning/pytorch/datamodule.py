from torch.utils.data import DataLoader

from lightning.pytorch.running import HasHyperparameters, current


class LightningDataModule(HasHyperparameters):
    name = None

    def __init__(self, *args, **kwargs):
        pass

    trainer = property(lambda self: current())

    @classmethod
    def from_datasets(
        cls,
        train_dataset=None,
        val_dataset=None,
        test_dataset=None,
        predict_dataset=None,
        batch_size=1,
        num_workers=0,
        **kwargs,
    ):
        made = cls()
        made.train_dataloader = lambda: DataLoader(train_dataset, batch_size=batch_size, shuffle=True)
        made.val_dataloader = lambda: DataLoader(val_dataset, batch_size=batch_size)
        return made

    def prepare_data(self):
        pass

    def setup(self, stage=None):
        pass

    def teardown(self, stage=None):
        pass

    def train_dataloader(self):
        return None

    def val_dataloader(self):
        return None

    def test_dataloader(self):
        return None

    def predict_dataloader(self):
        return None

    def on_before_batch_transfer(self, batch, dataloader_idx=0):
        return batch

    def transfer_batch_to_device(self, batch, device=None, dataloader_idx=0):
        return batch

    def on_after_batch_transfer(self, batch, dataloader_idx=0):
        return batch

    def state_dict(self):
        return {}

    def load_state_dict(self, state_dict):
        pass
