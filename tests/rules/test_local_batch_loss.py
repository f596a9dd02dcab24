"""What compares the examples of a batch with each other, and what only looks so."""

from __future__ import annotations

import pytest

from tests.rules.trainings import judge, training

WRONG = {
    "matmul": "loss = F.cross_entropy(a @ b.t(), torch.arange(len(a)))  # want: DP307",
    "transposed": "loss = F.cross_entropy(torch.mm(a, b.transpose(0, 1)), torch.arange(len(a)))  # want: DP307",
    "einsum": 'loss = F.cross_entropy(torch.einsum("nd,md->nm", a, b), torch.arange(len(a)))  # want: DP307',
    "cross-correlation": "loss = ((a.T @ b / len(a)) - torch.eye(8)).pow(2).sum()  # want: DP307",
    "covariance": 'loss = torch.einsum("nc,nd->cd", a, a).pow(2).sum()  # want: DP307',
    "variance": "loss = F.relu(1 - a.std(dim=0)).mean() + F.mse_loss(a, b)  # want: DP307",
    "pairs by broadcasting": "loss = F.cosine_similarity(a.unsqueeze(1), a.unsqueeze(0), dim=2).logsumexp(1).mean()  # want: DP307",
    "pairs by indexing": "loss = (a[:, None] - b[None]).pow(2).sum(2).exp().mean()  # want: DP307",
    "distances": "loss = torch.cdist(a, b).mean()  # want: DP307",
    "one side without gradient": "loss = F.cross_entropy(a @ b.detach().t(), torch.arange(len(a)))  # want: DP307",
}
RIGHT = {
    "row by row": "loss = -F.cosine_similarity(a, b.detach(), dim=1).mean()",
    "einsum row by row": 'loss = -torch.einsum("nd,nd->n", a, b).mean()',
    "spread of each row": "loss = F.mse_loss(a, b) + a.var(dim=1).mean()",
    "class centres": "loss = F.cross_entropy(a @ centres.t(), y[:, 0].long())",
    "distances to class centres": "loss = torch.cdist(a, centres).mean()",
    "attention inside an example": """
        q = a.view(len(a), 2, 4)
        weights = (q @ q.transpose(1, 2)).softmax(2)
        loss = F.mse_loss((weights @ q).flatten(1), b)
        """,
    "a mask by length": """
        mask = torch.arange(8)[None] < y.sum(1)[:, None]
        loss = (F.mse_loss(a, b, reduction="none") * mask).mean()
        """,
    "gathered with gradient": """
        a, b = torch.cat(all_gather(a)), torch.cat(all_gather(b))
        loss = F.cross_entropy(a @ b.t(), torch.arange(len(a)))
        """,
    "a reduced statistic": """
        c = all_reduce(a.T @ b) / (len(a) * world_size)
        loss = (c - torch.eye(8)).pow(2).sum()
        """,
    "a metric": """
        hits = (a @ b.t()).argmax(1) == torch.arange(len(a))
        loss = F.mse_loss(a, b)
        """,
}
ABOVE = "from torch.distributed.nn.functional import all_gather, all_reduce"
BEFORE = """
model = DDP(nn.Linear(4, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
centres = torch.ones(5, 8)
"""


@pytest.mark.parametrize("loss", [*WRONG.values(), *RIGHT.values()], ids=[*WRONG, *RIGHT])
def test_local_batch(loss: str, tmp_path, monkeypatch) -> None:
    lines = "\n".join(line.strip() for line in loss.strip().splitlines())
    judge(training("a, b = model(x), model(y)\n" + lines, ABOVE, BEFORE), "DP307", tmp_path, monkeypatch)
