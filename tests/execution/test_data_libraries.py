"""What the stubs of data libraries say of items: whose they are, and whether they are even."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpcheck.execution import TrainingRun
from dpcheck.execution.facts import SourceKind
from tests.execution.scripts import TORCH, WRAPPED, line, lines, one, run, term, update

STEPS = """
for batch in loader:
    x, y = (batch["x"], batch["y"]) if isinstance(batch, dict) else batch
    F.cross_entropy(model(x), y).backward()
    optimizer.step()
"""


def by_rank(found: TrainingRun) -> bool:
    """Do the items that the loader fetched depend on the rank?"""
    (backward,) = update(found).backwards
    return backward.facts.has(SourceKind.RANK)


@pytest.mark.parametrize(
    ("made", "shares"),
    [
        ("load_dataset('x', split='train', streaming=True)", False),
        ("load_dataset('x', split='train', streaming=True).shuffle(seed=1)", False),
        (
            "split_dataset_by_node(load_dataset('x', streaming=True)['train'], dist.get_rank(), dist.get_world_size())",
            True,
        ),
        ("load_dataset('x', streaming=True)['train'].shard(dist.get_world_size(), dist.get_rank())", True),
        ("load_dataset('x', split='train')", False),
        ("load_dataset('x', split='train').shard(num_shards=dist.get_world_size(), index=dist.get_rank())", True),
        ("load_dataset('x')['train'].select(range(dist.get_rank(), 100, dist.get_world_size()))", True),
        ("Dataset.from_dict({'x': [1.0, 2.0], 'y': [0, 1]}).with_format('torch')", False),
        ("StreamingDataset(local='x')", True),
    ],
)
def test_which_data_sets_are_a_ranks_own(tmp_path: Path, made: str, shares: bool) -> None:
    found = run(
        tmp_path,
        f"""{WRAPPED}
from datasets import Dataset, load_dataset
from datasets.distributed import split_dataset_by_node
from streaming import StreamingDataset
loader = DataLoader({made}, batch_size=4)
{STEPS}""",
        before=TORCH,
    )
    assert by_rank(found) == shares
    assert one(found, "loader").iterable.value == ("treaming" in made)


def test_maps_are_followed(tmp_path: Path) -> None:
    found = run(
        tmp_path,
        f"""{WRAPPED}
from datasets import load_dataset

def tag(row):
    labels = []
    for word in row["words"]:
        labels.append(-100 if word is None else 1)  # marked
    return {{"x": [0.5] * 4, "y": labels}}

data = load_dataset("x")["train"].map(tag, remove_columns=["words"]).with_format("torch")
loader = DataLoader(data, batch_size=4)
for batch in loader:
    F.cross_entropy(model(batch["x"]), batch["y"]).backward()
    optimizer.step()
""",
        before=TORCH,
    )
    assert term(found).even.is_uneven
    assert {line(found, each.site) for each in term(found).even.evidence} == lines(found, "# marked")


@pytest.mark.parametrize(
    ("made", "shares"),
    [
        ("wds.WebDataset('{0..9}.tar', nodesplitter=wds.split_by_node)", True),
        ("wds.WebDataset('{0..9}.tar', resampled=True)", True),
        ("wds.WebDataset('{0..9}.tar', nodesplitter=None)", False),
    ],
)
def test_webdataset_shards_by_its_node_splitter(tmp_path: Path, made: str, shares: bool) -> None:
    found = run(
        tmp_path,
        f"""{WRAPPED}
import webdataset as wds
data = {made}.shuffle(1000).decode("torch").to_tuple("x", "y").map_tuple(lambda x: x, lambda y: y)
loader = DataLoader(data, batch_size=4)
{STEPS}""",
        before=TORCH,
    )
    assert by_rank(found) == shares


def test_images_are_even_and_their_labels_clean(tmp_path: Path) -> None:
    found = run(
        tmp_path,
        f"""{WRAPPED}
from torchvision import datasets, models, transforms
from torch.utils.data.distributed import DistributedSampler
transform = transforms.Compose([transforms.RandomResizedCrop(224), transforms.ToTensor()])
data = datasets.ImageFolder("train", transform)
model = DistributedDataParallel(models.__dict__["resnet18"](pretrained=True))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
loader = DataLoader(data, batch_size=4, sampler=DistributedSampler(data))
for images, labels in loader:
    F.cross_entropy(model(images), labels).backward()
    optimizer.step()
""",
        before=TORCH,
    )
    assert term(found).even.is_even
    assert one(found, "load weights")


def test_timm_shards_where_it_is_told_to_be_distributed(tmp_path: Path) -> None:
    found = run(
        tmp_path,
        f"""{WRAPPED}
from timm.data import create_dataset, create_loader
from timm.models import create_model
from timm.optim import create_optimizer_v2
from timm.utils import NativeScaler
model = DistributedDataParallel(create_model("resnet18"))
optimizer = create_optimizer_v2(model, opt="sgd")
loader = create_loader(create_dataset("", "root"), 224, batch_size=4, is_training=True, distributed=True)
scaler = NativeScaler()
for images, labels in loader:
    scaler(F.cross_entropy(model(images), labels), optimizer, clip_grad=1.0, parameters=model.parameters())
""",
        before=TORCH,
    )
    assert by_rank(found)
    assert one(found, "clip").order > one(found, "backward").order


def test_composer_leaves_the_sharding_to_the_script(tmp_path: Path) -> None:
    text = """
        from composer import ComposerModel, Trainer
        from composer.utils import dist

        class Net(ComposerModel):
            def __init__(self):
                super().__init__()
                self.net = nn.Linear(4, 2)
            def forward(self, batch):
                return self.net(batch[0])
            def loss(self, outputs, batch):
                return F.cross_entropy(outputs, batch[1])

        model, data = Net(), pairs()
        loader = DataLoader(data, batch_size=4, SAMPLER)
        Trainer(model=model, train_dataloader=loader, optimizers=torch.optim.SGD(model.parameters(), 0.1)).fit()
    """
    assert not by_rank(run(tmp_path, text.replace("SAMPLER", "shuffle=True")))
    assert by_rank(run(tmp_path, text.replace("SAMPLER", "sampler=dist.get_sampler(data, shuffle=True)")))
