"""When a padding sampler makes a metric count examples twice."""

from __future__ import annotations

import pytest

from tests.rules.trainings import MODEL, judge, training

LOADER = """
test_data = TensorDataset(torch.zeros(21, 4), torch.zeros(21))
test_sampler = DistributedSampler(test_data, shuffle=False{options}){want}
test_loader = DataLoader(test_data, batch_size=4, sampler=test_sampler)
"""
COUNT = """
hits = torch.zeros(1)
for a, b in test_loader:
    hits += (model.module(a).argmax(1) == b).sum()
dist.all_reduce(hits)
"""
GATHER = """
found = []
for a, b in test_loader:
    found.append(model.module(a).argmax(1).detach())
found = torch.cat(found)
parts = [torch.empty_like(found) for _ in range(world_size)]
dist.all_gather(parts, found)
everything = torch.stack(parts, dim=1).flatten(){cut}
"""
BY_INDEX = (
    GATHER.format(cut="")
    + """
indices = torch.arange(len(found))
numbers = [torch.empty_like(indices) for _ in range(world_size)]
dist.all_gather(numbers, indices)
answers = torch.zeros(21)
answers[torch.cat(numbers)] = everything
"""
)
LOCAL = COUNT.replace("dist.all_reduce(hits)", "print(hits.item())")
WANT = "  # want: DP603"
CASES = {
    "counted": ("", WANT, COUNT),
    "gathered": ("", WANT, GATHER.format(cut="")),
    "dropped instead": (", drop_last=True", "", COUNT),
    "cut to the length": ("", "", GATHER.format(cut="[: len(test_data)]")),
    "put in their places": ("", "", BY_INDEX),
    "each rank for itself": ("", "", LOCAL),
}


@pytest.mark.parametrize(("options", "want", "evaluation"), CASES.values(), ids=CASES)
def test_evaluation(options: str, want: str, evaluation: str, tmp_path, monkeypatch) -> None:
    body = "loss = F.mse_loss(model(x).sum(1), y.sum(1))\nif step == 0:\n" + "\n".join(
        f"    {line}" for line in evaluation.strip().splitlines()
    )
    before = MODEL + LOADER.format(options=options, want=want)
    judge(training(body, before=before), "DP603", tmp_path, monkeypatch)


def test_training_data_is_another_matter(tmp_path, monkeypatch) -> None:
    body = "loss = F.mse_loss(model(x).sum(1), y.sum(1))\nlogged = loss.detach().clone()\ndist.all_reduce(logged)"
    script = training(body).replace("DistributedSampler(data, drop_last=True)", "DistributedSampler(data)")
    judge(script, "DP603", tmp_path, monkeypatch)
