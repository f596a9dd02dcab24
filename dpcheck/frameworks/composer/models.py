from dpcheck_intrinsics import kind_of

from torch.nn import Module, functional


class ComposerModel(Module):
    def __init__(self, *args, **kwargs):
        super().__init__()

    def forward(self, batch):
        return batch

    def loss(self, outputs, batch, *args, **kwargs):
        return outputs

    def eval_forward(self, batch, outputs=None):
        return self.forward(batch)

    def get_metrics(self, is_train=False):
        return {}

    def update_metric(self, batch, outputs, metric):
        pass


class ComposerClassifier(ComposerModel):
    def __init__(
        self, module, num_classes=None, train_metrics=None, val_metrics=None, loss_fn=functional.cross_entropy
    ):
        super().__init__()
        self.module = module
        self._loss_fn = loss_fn

    def forward(self, batch):
        inputs, _ = batch
        return self.module(inputs)

    def loss(self, outputs, batch, *args, **kwargs):
        _, targets = batch
        return self._loss_fn(outputs, targets)


class HuggingFaceModel(ComposerModel):
    def __init__(self, model, tokenizer=None, use_logits=False, metrics=None, eval_metrics=None, *args, **kwargs):
        super().__init__()
        self.model = model
        self.tokenizer = tokenizer

    def forward(self, batch):
        if kind_of(batch) == "mapping":
            return self.model(**batch)
        return self.model(batch)

    def loss(self, outputs, batch, *args, **kwargs):
        return outputs["loss"] if kind_of(outputs) == "mapping" else outputs.loss
