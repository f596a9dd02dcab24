"""Which draws in the loop are the same on all ranks, and which of those matter."""

from __future__ import annotations

import pytest

from tests.rules.trainings import MODEL, judge, training

ALIKE = "torch.manual_seed(0)\n" + MODEL
ITEMS = """
import random


class Noisy(torch.utils.data.Dataset):
    def __len__(self):
        return 32

    def __getitem__(self, i):
        return {item}, torch.ones(8)
"""
OWN_LOADER = """
own_data = Noisy()
own_loader = DataLoader(own_data, batch_size=4, sampler=DistributedSampler(own_data))
"""
WRONG = {
    "noise": (ALIKE, "loss = F.mse_loss(model(x + torch.randn_like(x)), torch.ones(4, 8))  # want: DP209"),
    "time steps": (
        ALIKE,
        "t = torch.randint(0, 1000, (len(x),))  # want: DP209\nloss = F.mse_loss(model(x) * t[:, None], torch.ones(4, 8))",
    ),
    "a mask": (ALIKE, "loss = F.mse_loss(model(x * (torch.rand(x.shape) > 0.5)), torch.ones(4, 8))  # want: DP209"),
    "a generator seeded by the step": (
        MODEL,
        "noise = torch.randn(x.shape, generator=torch.Generator().manual_seed(step))  # want: DP209\n"
        "loss = F.mse_loss(model(x + noise), torch.ones(4, 8))",
    ),
    "numpy": (
        "import numpy as np\nnp.random.seed(1)\n" + MODEL,
        "noise = torch.from_numpy(np.random.randn(4, 4))  # want: DP209\nloss = model(x + noise).pow(2).mean()",
    ),
}
RIGHT = {
    "no seed": (MODEL, "loss = F.mse_loss(model(x + torch.randn_like(x)), torch.ones(4, 8))"),
    "seeded by rank": (
        "torch.manual_seed(rank)\n" + MODEL,
        "loss = F.mse_loss(model(x + torch.randn_like(x)), torch.ones(4, 8))",
    ),
    "a generator seeded by rank": (
        ALIKE + "g = torch.Generator().manual_seed(7 + rank)\n",
        "loss = F.mse_loss(model(x + torch.randn(x.shape, generator=g)), torch.ones(4, 8))",
    ),
    "one number a batch": (
        ALIKE,
        "lam = torch.rand(1)\nloss = F.mse_loss(model(lam * x + (1 - lam) * y), torch.ones(4, 8))",
    ),
    "drawn before the loop": (
        ALIKE + "noise = torch.randn(4, 4)\n",
        "loss = F.mse_loss(model(x + noise), torch.ones(4, 8))",
    ),
    "not in the loss": (ALIKE, "probe = model(torch.randn_like(x)).detach()\nloss = model(x).pow(2).mean()"),
}


@pytest.mark.parametrize(("before", "body"), [*WRONG.values(), *RIGHT.values()], ids=[*WRONG, *RIGHT])
def test_draw_in_the_loop(before: str, body: str, tmp_path, monkeypatch) -> None:
    judge(training(body, before=before), "DP209", tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("item", "want"),
    [
        ("torch.ones(4) * i + torch.randn(4)", True),
        ("torch.ones(4) * i * random.random()", True),
        ("torch.ones(4) * i + torch.randn(4, generator=torch.Generator().manual_seed(i))", False),
    ],
    ids=["noise", "a factor for each example", "a generator of its own for each example"],
)
def test_draw_in_the_data_set(item: str, want: bool, tmp_path, monkeypatch) -> None:
    above = ITEMS.format(item=item)
    if want:
        above = above.replace(", torch.ones(8)", ", torch.ones(8)  # want: DP209")
    script = training("loss = F.mse_loss(model(x), y)", above, "random.seed(0)\n" + ALIKE + OWN_LOADER)
    judge(script.replace("enumerate(loader)", "enumerate(own_loader)"), "DP209", tmp_path, monkeypatch)
