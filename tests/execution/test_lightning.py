"""What the stubs of Lightning make of a script: its events and its loss terms."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpcheck.execution import TrainingRun
from tests.execution.programs import RANK, SHOW, WORLD, shown
from tests.execution.scripts import (
    GROUP,
    counts_steps,
    divisor,
    is_mean_of_uneven,
    line,
    lines,
    names,
    one,
    run,
    sharded_by,
    term,
    update,
)

LIT = """
import lightning as L

class Lit(L.LightningModule):
    def __init__(self, width=8, lr=0.1):
        super().__init__()
        self.save_hyperparameters()
        self.net = Tagger()

    def training_step(self, batch, batch_idx):
        ids, labels = batch
        loss = F.cross_entropy(self.net(ids).flatten(0, 1), labels.flatten())  # mean
        self.log("loss", loss, sync_dist=True)
        return RETURN

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=self.hparams.lr)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
        return OPTIMIZERS

loader = DataLoader(Tagged(), batch_size=4, shuffle=True)
trainer = L.Trainer(max_epochs=3, TRAINER)
trainer.fit(Lit(), loader)
"""


def lit(root: Path, trainer: str = "", *, loss: str = "loss", made: str = "optimizer", text: str = LIT) -> TrainingRun:
    return run(root, text.replace("RETURN", loss).replace("OPTIMIZERS", made).replace("TRAINER", trainer))


def test_lightning_fits(tmp_path: Path) -> None:
    found = lit(tmp_path)
    assert one(found, "wrap").how == "DDP"
    assert sharded_by(found) == ["Lightning"]
    assert is_mean_of_uneven(found)
    assert line(found, term(found).reduction) in lines(found, "# mean")
    assert names(found) == ["all_reduce"]
    assert one(found, "log").name.value == "loss"
    assert not found.unknowns


def test_the_older_name_is_the_same(tmp_path: Path) -> None:
    found = lit(tmp_path, text=LIT.replace("import lightning as L", "import pytorch_lightning as L"))
    assert is_mean_of_uneven(found)


@pytest.mark.parametrize(
    "form",
    [
        "optimizer",
        "[optimizer]",
        "[optimizer], [schedule]",
        '[optimizer], [{"scheduler": schedule, "interval": "step"}]',
        '{"optimizer": optimizer}',
        '{"optimizer": optimizer, "lr_scheduler": schedule}',
        '{"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "monitor": "loss"}}',
        '({"optimizer": optimizer},)',
    ],
)
def test_the_forms_of_configure_optimizers(tmp_path: Path, form: str) -> None:
    found = lit(tmp_path, made=form)
    assert update(found).step.subject is one(found, "optimizer").subject
    assert bool(found.of_kind("scheduler step")) == ("schedule" in form)


@pytest.mark.parametrize(("returned", "backwards"), [("loss", 1), ('{"loss": loss}', 1), ("None", 0)])
def test_the_forms_of_what_a_step_returns(tmp_path: Path, returned: str, backwards: int) -> None:
    assert len(lit(tmp_path, loss=returned).of_kind("backward")) == backwards


@pytest.mark.parametrize(
    ("arguments", "how"),
    [
        ("devices=1", None),
        ("devices=[0]", None),
        ("devices=1, num_nodes=4", "DDP"),
        ("devices=4", "DDP"),
        ('devices="auto", strategy="fsdp"', "FSDP"),
        ("strategy=L.pytorch.strategies.FSDPStrategy()", "FSDP"),
        ('strategy="deepspeed_stage_2"', "DeepSpeed"),
    ],
)
def test_which_trainers_are_data_parallel(tmp_path: Path, arguments: str, how: str | None) -> None:
    found = lit(tmp_path, arguments, text=GROUP + LIT)
    assert [event.how for event in found.of_kind("wrap")] == ([how] if how else [])
    assert len(found.of_kind("group")) == (2 if how else 1)
    assert len(found.of_kind("shard")) == (1 if how else 0)
    assert len(found.of_kind("step")) == 1


def test_lightning_accumulates_and_clips(tmp_path: Path) -> None:
    found = lit(tmp_path, "accumulate_grad_batches=4, gradient_clip_val=1.0")
    assert update(found).accumulates
    assert not update(found).backwards[0].guards
    assert one(found, "clip").how == "norm"
    assert divisor(found) in lines(found, "accumulate_grad_batches=4")


def test_lightning_leaves_streams_and_ready_samplers_alone(tmp_path: Path) -> None:
    stream = """
class Stream(IterableDataset):
    def __iter__(self):
        for i in range(100):
            yield torch.zeros(12).long(), torch.ones(12).long()

loader = DataLoader(Stream(), batch_size=4)"""
    plain = "loader = DataLoader(Tagged(), batch_size=4, shuffle=True)"
    found = lit(tmp_path, text=LIT.replace(plain, stream))
    assert found.of_kind("shard") == []
    assert one(found, "iterate").subject is one(found, "loader").subject
    sampled = "data = Tagged()\nloader = DataLoader(data, sampler=torch.utils.data.DistributedSampler(data))"
    found = lit(tmp_path, text=LIT.replace(plain, sampled))
    assert sharded_by(found) == []
    assert one(found, "set epoch").subject is one(found, "shard").subject
    assert lit(tmp_path, "use_distributed_sampler=False").of_kind("shard") == []


def test_lightning_calls_back(tmp_path: Path) -> None:
    text = f"""{SHOW}
import lightning as L
from lightning.pytorch.callbacks import Callback, EarlyStopping, ModelCheckpoint
from lightning.pytorch.utilities import rank_zero_only

class Data(L.LightningDataModule):
    def prepare_data(self):
        show("prepared")
    def setup(self, stage):
        show(stage)
        self.train = pairs()
    def train_dataloader(self):
        return DataLoader(self.train, batch_size=4, shuffle=True)

class Tell(Callback):
    def on_train_epoch_end(self, trainer, module):
        show("epoch", trainer.world_size, module.global_rank)

class Gan(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.make, self.judge = nn.Linear(4, 4), nn.Linear(4, 1)

    def training_step(self, batch):
        first, second = self.optimizers()
        x, y = batch
        self.manual_backward(self.judge(self.make(x)).mean())
        first.step()
        self.manual_backward(self.judge(x).mean())
        second.step()

    @rank_zero_only
    def on_train_end(self):
        show("end")

    def configure_optimizers(self):
        return torch.optim.SGD(self.make.parameters(), 0.1), torch.optim.SGD(self.judge.parameters(), 0.1)

L.Trainer(callbacks=[Tell(), EarlyStopping("loss"), ModelCheckpoint()]).fit(Gan(), datamodule=Data())
"""
    found = run(tmp_path, text)
    told = [value for value in shown(found) if value != 4]
    assert told == ["prepared", "fit", ("epoch", WORLD, RANK), "end"]
    by_rank = [event for event in found.of_kind("loader") if any(guard.by_rank for guard in event.guards)]
    assert len(by_rank) == 2  # what only one rank does: prepare_data, and the decorated hook
    assert sharded_by(found) == ["Lightning"]
    assert [len(each.backwards) for each in found.updates] == [1, 2]  # the judge learns from both
    assert all(each.wraps for each in found.updates)


def test_fabric(tmp_path: Path) -> None:
    found = run(
        tmp_path,
        """
        from lightning.fabric import Fabric
        fabric = Fabric(devices=4)
        fabric.launch()
        fabric.seed_everything(1 + fabric.global_rank)
        model = nn.Linear(4, 2)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        model, optimizer = fabric.setup(model, optimizer)
        loader = fabric.setup_dataloaders(DataLoader(pairs(), batch_size=4, shuffle=True, drop_last=True))
        for i, (x, y) in enumerate(loader):
            accumulating = i % 4 != 0
            with fabric.no_backward_sync(model, enabled=accumulating):
                fabric.backward(F.cross_entropy(model(x), y) / 4)
            if not accumulating:
                fabric.clip_gradients(model, optimizer, max_norm=1.0)
                optimizer.step()
        """,
    )
    assert one(found, "seed").state.by_rank
    assert sharded_by(found) == ["Fabric"]
    assert counts_steps(update(found).step)
    assert term(found).even.is_even
