"""Lightning's trainer and Fabric under the shim."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest

from tests.verify.shimmed import Shimmed, serving

pytestmark = pytest.mark.skipif(importlib.util.find_spec("lightning") is None, reason="lightning is not installed")


@pytest.fixture(scope="module")
def shimmed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shimmed]:
    with serving(tmp_path_factory.mktemp("shimmed")) as running:
        yield running


TRAINER = """
    import json, torch
    from torch import nn
    import lightning as L
    from lightning.pytorch.strategies import DDPStrategy, FSDPStrategy
    from lightning.pytorch.plugins import MixedPrecision
    class Model(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8) if {norm} else nn.Tanh(), nn.Linear(8, 1))
        def training_step(self, batch, index):
            x, y = batch
            told.update(batch=x.tolist(), dtype=str(x.dtype))
            return nn.functional.mse_loss(self.net(x).squeeze(-1), y)
        def on_before_optimizer_step(self, optimizer):
            gradients = [p.grad for p in self.parameters() if p.grad is not None]
            told["gradient"] = [gradient.sum().item() for gradient in gradients if gradient.numel()]
            told["weights"] = str(next(self.parameters()).dtype)
        def configure_optimizers(self): return torch.optim.SGD(self.parameters(), 0.1)
    told = {{}}
    torch.manual_seed(0)
    data = torch.utils.data.TensorDataset(torch.randn(8, 4), torch.randn(8))
    model = Model()
    trainer = L.Trainer(max_steps=1, logger=False, enable_progress_bar=False, enable_model_summary=False,
                        enable_checkpointing=False, **dict({options}))
    trainer.fit(model, torch.utils.data.DataLoader(data, batch_size=2))
    told.update(world=trainer.world_size, rank=trainer.global_rank, device=str(trainer.strategy.root_device),
                strategy=type(trainer.strategy).__name__, precision=type(trainer.precision_plugin).__name__)
    print(json.dumps(told))
    """


@pytest.mark.parametrize(
    ("options", "strategy"),
    [
        ("accelerator='gpu', devices=4, precision='16-mixed'", "DDPStrategy"),
        ("accelerator='auto', devices='auto', strategy='auto', precision='bf16-true'", "DDPStrategy"),
        ("accelerator='cuda', devices=[0, 1], strategy='ddp_spawn', num_nodes=4", "DDPStrategy"),
        ("accelerator='gpu', strategy='ddp_notebook_find_unused_parameters_true'", "DDPStrategy"),
        ("accelerator='gpu', devices=-1, strategy=DDPStrategy(process_group_backend='nccl')", "DDPStrategy"),
        ("accelerator='gpu', devices=2, plugins=[MixedPrecision('16-mixed', 'cuda')]", "DDPStrategy"),
        ("accelerator='gpu', devices=2, strategy='fsdp', precision='bf16-mixed'", "FSDPStrategy"),
        ("accelerator='gpu', devices=2, strategy=FSDPStrategy(use_orig_params=True)", "FSDPStrategy"),
    ],
    ids=["gpu", "auto", "spawn", "notebook", "instance", "plugin", "fsdp", "fsdp instance"],
)
def test_the_trainer_runs_in_the_processes_of_the_run(shimmed: Shimmed, options: str, strategy: str) -> None:
    ran = shimmed.run(TRAINER.format(options=options, norm=False), ranks=2)
    for rank, one in enumerate(ran):
        told = one.result
        assert (told["rank"], told["world"], told["device"], told["strategy"]) == (rank, 2, "cpu", strategy)
        assert told["dtype"] == told["weights"] == "torch.float64"
        assert told["precision"] in ("Precision", "FSDPPrecision")
        assert len(one.notes("lightning")) == 1
    one, other = (each.result for each in ran)
    assert one["batch"] != other["batch"]
    if strategy == "DDPStrategy":
        assert one["gradient"] == other["gradient"]


def test_sync_batchnorm_of_the_trainer(shimmed: Shimmed) -> None:
    options = "accelerator='gpu', devices=2, sync_batchnorm=True"
    one, other = (each.result for each in shimmed.run(TRAINER.format(options=options, norm=True), ranks=2))
    assert one["gradient"] == other["gradient"]


def test_a_reference_of_the_trainer(shimmed: Shimmed) -> None:
    options = "accelerator='gpu', devices=2, strategy='ddp'"
    told = shimmed.result(TRAINER.format(options=options, norm=False), role="reference")
    assert (told["rank"], told["world"], told["device"]) == (0, 1, "cpu")


@pytest.mark.parametrize("strategy", ["'ddp'", "'auto'", "'fsdp'", "'ddp_spawn'"])
def test_fabric(shimmed: Shimmed, strategy: str) -> None:
    ran = shimmed.run(
        f"""
        import json, torch
        from torch import nn
        from lightning.fabric import Fabric
        fabric = Fabric(accelerator="cuda", devices=8, num_nodes=2, strategy={strategy}, precision="bf16-mixed")
        fabric.launch()
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
        model = fabric.setup_module(model)
        optimizer = fabric.setup_optimizers(torch.optim.SGD(model.parameters(), 0.1))
        data = torch.utils.data.TensorDataset(torch.randn(8, 4))
        loader = fabric.setup_dataloaders(torch.utils.data.DataLoader(data, batch_size=2))
        (x,) = next(iter(loader))
        loss = model(x).mean()
        fabric.backward(loss)
        total = fabric.all_reduce(torch.ones(1), reduce_op="sum").item()
        gradients = [p.grad.tolist() for p in model.parameters() if p.grad is not None]
        print(json.dumps([fabric.global_rank, fabric.world_size, str(fabric.device), str(loss.dtype), total,
                          x.tolist(), gradients]))
        """,
        ranks=2,
    )
    results = [one.result for one in ran]
    assert [result[:5] for result in results] == [[rank, 2, "cpu", "torch.float64", 2.0] for rank in (0, 1)]
    assert results[0][5] != results[1][5]
    if strategy != "'fsdp'":
        assert results[0][6] == results[1][6]
