from dpcheck_intrinsics import certainly, constant, escape, kind_of, record, seed as _seed, start_group, unknown

from torch.distributed.fsdp import FullyShardedDataParallel
from torch.nn.parallel import DistributedDataParallel
from torch.optim import AdamW


class Trainer:
    def __init__(
        self,
        *,
        model=None,
        train_dataloader=None,
        eval_dataloader=None,
        max_duration=None,
        optimizers=None,
        schedulers=None,
        callbacks=None,
        algorithms=None,
        seed=None,
        device_train_microbatch_size=None,
        parallelism_config=None,
        fsdp_config=None,
        **kwargs,
    ):
        start_group("composer")
        if seed is not None:
            _seed("all", seed)
        self.model = model
        self.loader = (
            getattr(train_dataloader, "dataloader", train_dataloader)
            if kind_of(train_dataloader) == "object"
            else train_dataloader
        )
        self.optimizers = optimizers if kind_of(optimizers) == "sequence" else [optimizers]
        if optimizers is None:
            self.optimizers = [AdamW(model.parameters())]
        self.schedulers = schedulers if kind_of(schedulers) == "sequence" else []
        self.state = self
        self.timestamp = constant()
        if certainly(fsdp_config is not None) or certainly(parallelism_config is not None):
            self.wrapper = FullyShardedDataParallel(model, use_orig_params=True)
        else:
            self.wrapper = DistributedDataParallel(model)

    def fit(self, *, train_dataloader=None, duration=None, **kwargs):
        model = self.model
        loader = train_dataloader if train_dataloader is not None else self.loader
        # On several ranks it refuses a loader without a sampler that knows the rank: no such run ever trains.
        escape(loader)
        model.train()
        for epoch in range(constant("int")):
            sampler = getattr(loader, "sampler", None)
            if certainly(hasattr(sampler, "set_epoch")):
                sampler.set_epoch(epoch)
            for batch in loader:
                outputs = self.wrapper(batch)
                model.loss(outputs, batch).backward()
                for optimizer in self.optimizers:
                    optimizer.step()
                    optimizer.zero_grad()

    def eval(self, *args, **kwargs):
        pass

    def predict(self, *args, **kwargs):
        return unknown()

    def save_checkpoint(self, *args, **kwargs):
        record("collective", None, name="barrier", op="", group=None)

    def close(self):
        pass
