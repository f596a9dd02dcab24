from contextlib import contextmanager

from dpcheck_intrinsics import all_reduce, constant, gather_stacked, kind_of, local_rank, rank, record, unknown

from torch.nn import Module

from lightning.pytorch.running import HasHyperparameters, current


class LightningModule(HasHyperparameters, Module):
    automatic_optimization = True
    example_input_array = None
    strict_loading = True

    def __init__(self, *args, **kwargs):
        pass

    trainer = property(lambda self: current())
    fabric = property(lambda self: current())
    global_rank = property(lambda self: rank())
    local_rank = property(lambda self: local_rank())
    device = property(lambda self: constant("device"))
    dtype = property(lambda self: constant())
    on_gpu = True
    current_epoch = property(lambda self: current().current_epoch)
    global_step = property(lambda self: current().global_step)
    logger = property(lambda self: current().logger)
    loggers = property(lambda self: current().loggers)

    # The steps and hooks that a user overrides.

    def training_step(self, *args, **kwargs):
        return None

    def validation_step(self, *args, **kwargs):
        return None

    def test_step(self, *args, **kwargs):
        return None

    def predict_step(self, batch, *args, **kwargs):
        return self(batch)

    def training_step_end(self, output):
        return output

    def validation_step_end(self, output):
        return output

    def training_epoch_end(self, outputs):
        pass

    def validation_epoch_end(self, outputs):
        pass

    def test_epoch_end(self, outputs):
        pass

    def configure_optimizers(self):
        return None

    def configure_callbacks(self):
        return []

    def configure_model(self):
        pass

    def configure_sharded_model(self):
        pass

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

    def on_fit_start(self):
        pass

    def on_fit_end(self):
        pass

    def on_train_start(self):
        pass

    def on_train_end(self):
        pass

    def on_train_epoch_start(self):
        pass

    def on_train_epoch_end(self):
        pass

    def on_epoch_start(self):
        pass

    def on_epoch_end(self):
        pass

    def on_train_batch_start(self, batch, batch_idx, *args):
        pass

    def on_train_batch_end(self, outputs, batch, batch_idx, *args):
        pass

    def on_validation_start(self):
        pass

    def on_validation_end(self):
        pass

    def on_validation_epoch_start(self):
        pass

    def on_validation_epoch_end(self):
        pass

    def on_validation_batch_start(self, batch, batch_idx, dataloader_idx=0):
        pass

    def on_validation_batch_end(self, outputs, batch, batch_idx, dataloader_idx=0):
        pass

    def on_test_start(self):
        pass

    def on_test_end(self):
        pass

    def on_test_epoch_start(self):
        pass

    def on_test_epoch_end(self):
        pass

    def on_test_batch_start(self, batch, batch_idx, dataloader_idx=0):
        pass

    def on_test_batch_end(self, outputs, batch, batch_idx, dataloader_idx=0):
        pass

    def on_before_zero_grad(self, optimizer):
        pass

    def on_before_backward(self, loss):
        pass

    def on_after_backward(self):
        pass

    def on_before_optimizer_step(self, optimizer, *args):
        pass

    def on_save_checkpoint(self, checkpoint):
        pass

    def on_load_checkpoint(self, checkpoint):
        pass

    # What the trainer calls, and users may override or call.

    def backward(self, loss, *args, **kwargs):
        loss.backward()

    def manual_backward(self, loss, *args, **kwargs):
        self.backward(loss)

    def optimizers(self, use_pl_optimizer=True):
        found = current().optimizers
        return found[0] if len(found) == 1 else found

    def lr_schedulers(self):
        found = current().schedulers
        return found[0] if len(found) == 1 else found if len(found) > 0 else None

    def optimizer_step(self, epoch, batch_idx, optimizer, optimizer_closure=None, *args, **kwargs):
        optimizer.step(closure=optimizer_closure)

    def optimizer_zero_grad(self, epoch, batch_idx, optimizer, *args):
        optimizer.zero_grad()

    def lr_scheduler_step(self, scheduler, metric=None, *args):
        if metric is None:
            scheduler.step()
        else:
            scheduler.step(metric)

    def configure_gradient_clipping(self, optimizer, gradient_clip_val=None, gradient_clip_algorithm=None, *args):
        self.clip_gradients(optimizer, gradient_clip_val, gradient_clip_algorithm)

    def clip_gradients(self, optimizer, gradient_clip_val=None, gradient_clip_algorithm=None):
        current().clip(optimizer, gradient_clip_algorithm)

    def toggle_optimizer(self, optimizer, *args):
        pass

    def untoggle_optimizer(self, optimizer=None):
        pass

    @contextmanager
    def toggled_optimizer(self, optimizer):
        yield

    def log(self, name, value, *args, sync_dist=False, rank_zero_only=False, **kwargs):
        record("log", value, name=name, reduced=sync_dist)
        if sync_dist:
            value = all_reduce(value, "avg", in_place=False)
        current().callback_metrics[name] = value

    def log_dict(self, dictionary, *args, sync_dist=False, **kwargs):
        if kind_of(dictionary) == "mapping":
            for name, value in dictionary.items():
                self.log(name, value, sync_dist=sync_dist)
        elif sync_dist:
            record("collective", dictionary, name="all_reduce", op="avg", group=None)

    def all_gather(self, data, group=None, sync_grads=False):
        return gather_stacked(data, differentiable=sync_grads)

    def print(self, *args, **kwargs):
        pass

    def freeze(self):
        self.requires_grad_(False)
        self.eval()

    def unfreeze(self):
        self.requires_grad_(True)
        self.train()

    @classmethod
    def load_from_checkpoint(cls, checkpoint_path, map_location=None, hparams_file=None, strict=None, **kwargs):
        made = cls(**kwargs)
        made.load_state_dict(unknown())
        return made

    def to_torchscript(self, *args, **kwargs):
        return unknown()

    def to_onnx(self, *args, **kwargs):
        pass
