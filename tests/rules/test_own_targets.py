"""Whose targets a loss is divided by: this rank's own, all ranks' or as many on each (DP301, DP302, DP304)."""

from __future__ import annotations

import pytest

from tests.rules.trainings import judge, training

BEFORE = """
model = DDP(nn.Linear(4, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
centres = torch.zeros(8, 8)
weights = torch.tensor([1.0, 2.0, 3.0, 4.0, 1.0, 2.0, 3.0, 4.0])
"""
GIVEN = """
z, t = model(x), y[:, 0].long()
each = F.cross_entropy(z, t, reduction="none")
positive, negative = torch.nonzero(t >= 1).squeeze(1), torch.nonzero(t == 0).squeeze(1)
total = torch.tensor(float(len(x)))
dist.all_reduce(total)
"""
MEANS = {
    "rows of a mask": "loss = F.mse_loss(z[t > 1], centres[t[t > 1]])  # want: DP301",
    "two masks": "loss = each[(t != 0) & (x[:, 0] > 0)].mean()  # want: DP301",
    "a mask of a dtype": "loss = each[(t != 0).to(dtype=torch.bool)].mean()  # want: DP301",
    "places": "loss = each[positive].mean()  # want: DP301",
    "older flag: mean": "loss = nn.CrossEntropyLoss(size_average=True, ignore_index=0)(z, t)  # want: DP301",
    "a local number of drawn": """
        some = negative[torch.randperm(len(negative))[: 3 * len(positive)]]
        loss = each[some].mean()  # want: DP301
        """,
    "a centre for each row": "loss = (z - centres[t]).pow(2).mean()",
    "a centre by long()": "loss = F.mse_loss(z, centres[t.long()])",
    "a weight for each row": "loss = (each * weights[t]).mean()",
    "older flag: sum": "loss = nn.CrossEntropyLoss(ignore_index=0, size_average=False)(z, t) / len(x)",
    "older flag: none": "loss = F.cross_entropy(z, t, ignore_index=0, reduce=False).mean()",
    "an index beyond all classes": """
        beyond = z.size(1)
        loss = nn.CrossEntropyLoss(ignore_index=beyond)(z, t.clamp(0, beyond))
        """,
    "a sample of one size": """
        many = min(positive.numel(), 2)
        few = min(negative.numel(), 4 - many)
        chosen = torch.zeros_like(t, dtype=torch.bool)
        chosen[positive[torch.randperm(positive.numel())[:many]]] = True
        chosen[negative[torch.randperm(negative.numel())[:few]]] = True
        loss = each[chosen].mean()
        """,
    "rows of another length": """
        pairs = torch.stack([z[0, : len(positive)] for _ in range(4)], dim=1).reshape(-1, len(positive))
        loss = F.cross_entropy(pairs.mean(1)[:, None].expand(-1, 8), t)
        """,
}
COUNTS = {
    "weights of the targets": "loss = (each * weights[t]).sum() / weights[t].sum()  # want: DP302",
    "ones at places": """
        m = torch.zeros(len(t))
        m[positive] = 1.0
        loss = (each * m).sum() / m.sum()  # want: DP302
        """,
    "older flag": "loss = F.cross_entropy(z, t, size_average=False) / (t != 0).sum()  # want: DP302",
    "rows": "loss = (each * weights[t]).sum() / len(t)",
}
FACTORS = {
    "a mean times W": "loss = each.mean() * world_size  # want: DP304",
    "grown twice": "loss = each.mean() * total * world_size  # want: DP304",
    "grows with the batch": "loss = each.mean() * total",
    "a statistic of all ranks": "loss = (all_reduce(z.cos().sum(0)) / total).square().sum() * total",
}
KINDS = {"DP301": MEANS, "DP302": COUNTS, "DP304": FACTORS}
ALL = [(code, name) for code, kind in KINDS.items() for name in kind]


@pytest.mark.parametrize(("code", "name"), ALL)
def test_own_targets(code: str, name: str, tmp_path, monkeypatch) -> None:
    lines = "\n".join(line.strip() for line in KINDS[code][name].strip().splitlines())
    above = "from torch.distributed.nn.functional import all_reduce"
    judge(training(GIVEN + lines, above, BEFORE), code, tmp_path, monkeypatch)
