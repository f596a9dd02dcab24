"""Which collectives in a loss keep gradient from the other ranks, and which do so for a reason or without effect."""

from __future__ import annotations

import pytest

from tests.rules.trainings import judge, training

GATHER = """
def gather(features):
    parts = [torch.empty_like(features) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, features){want}
    parts[dist.get_rank()] = features
    return torch.cat(parts)
"""
FUNCTION = """
class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, x){want}
        return tuple(parts)

    @staticmethod
    def backward(ctx, *gradients):
        {backward}


def gather(features):
    return torch.cat(Gather.apply(features))
"""
SUMS = """stacked = torch.stack(gradients)
        dist.all_reduce(stacked)
        return stacked[dist.get_rank()]"""
LOCAL_ROWS = """
a, b = model(x), model(y)
logits = a @ gather(b).T
loss = F.cross_entropy(logits, torch.arange(len(a)) + rank * len(a))
"""
ALL_ROWS = """
a, b = gather(model(x)), gather(model(y))
loss = F.cross_entropy(a @ b.T, torch.arange(len(a))){factor}
"""
WANT = "  # want: DP306"


def wrong() -> dict[str, str]:
    gather = GATHER.format(want=WANT)
    return {
        "local rows": training(LOCAL_ROWS, gather),
        "local rows, times the world size": training(LOCAL_ROWS + "loss = loss * world_size", gather),
        "a term that lost all gradient": training(
            """
            z = model(x)
            parts = [torch.empty_like(z) for _ in range(world_size)]
            dist.all_gather(parts, z)  # want: DP306
            everything = torch.cat(parts)
            loss = F.mse_loss(z.sum(1), y.sum(1)) + F.relu(1 - everything.std(0)).mean()
            """
        ),
        "all rows without a factor": training(ALL_ROWS.format(factor=""), gather),
        "into one tensor": training(
            """
            a, b = model(x), model(y)
            everything = torch.empty(len(b) * world_size, 8)
            dist.all_gather_into_tensor(everything, b)  # want: DP306
            loss = F.cross_entropy(a @ everything.T, torch.arange(len(a)) + rank * len(a))
            """
        ),
        "a matrix in the middle of a loss": training(
            """
            c = model(x).T @ model(y) / (len(x) * world_size)
            dist.all_reduce(c)  # want: DP306
            loss = (torch.diagonal(c) - 1).pow(2).sum() + c.pow(2).sum()
            """
        ),
        "the loss itself, divided": training(
            """
            loss = F.mse_loss(model(x).sum(1), y.sum(1))
            dist.all_reduce(loss)  # want: DP306
            loss = loss / world_size
            """
        ),
        "one term of two": training(
            """
            z = model(x)
            mean = torch.cos(z).mean(0)
            dist.all_reduce(mean)  # want: DP306
            loss = F.mse_loss(z.sum(1), y.sum(1)) + (mean / world_size).pow(2).sum()
            """
        ),
        "a backward of its own part": training(
            ALL_ROWS.format(factor=""), FUNCTION.format(want=WANT, backward="return gradients[dist.get_rank()]")
        ),
        "a backward of its own part, local rows": training(
            LOCAL_ROWS, FUNCTION.format(want=WANT, backward="return gradients[dist.get_rank()]")
        ),
        "parts in another order": training(
            """
            a, b = model(x), model(y)
            parts = [torch.empty_like(b) for _ in range(world_size)]
            dist.all_gather(parts, b)  # want: DP306
            everything = torch.cat([b] + parts[:rank] + parts[rank + 1:])
            loss = F.cross_entropy(a @ everything.T, torch.arange(len(a)))
            """
        ),
    }


def right() -> dict[str, str]:
    gather = GATHER.format(want="")
    return {
        "all rows, times the world size": training(ALL_ROWS.format(factor=" * world_size"), gather),
        "all rows in one tensor, times the world size": training(
            """
            b = model(y)
            everything = torch.empty(len(b) * world_size, 8)
            dist.all_gather_into_tensor(everything, b)
            everything[rank * len(b):(rank + 1) * len(b)] = b
            loss = F.cross_entropy(everything @ everything.T, torch.arange(len(everything))) * world_size
            """
        ),
        "gradients summed by hand": training(
            ALL_ROWS.format(factor=""),
            gather,
            before="""
            torch.manual_seed(0)
            model = nn.Linear(4, 8)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            """,
            update="""
optimizer.zero_grad()
loss.backward()
for p in model.parameters():
    dist.all_reduce(p.grad)
optimizer.step()
""",
        ),
        "the loss itself, undivided": training(
            """
            loss = F.mse_loss(model(x).sum(1), y.sum(1))
            dist.all_reduce(loss)
            """
        ),
        "a copy for the log": training(
            """
            loss = F.mse_loss(model(x).sum(1), y.sum(1))
            logged = loss.detach().clone()
            dist.all_reduce(logged)
            """
        ),
        "keys without gradient": training(
            """
            a = model(x)
            with torch.no_grad():
                b = model(y)
            logits = a @ gather(b).T
            loss = F.cross_entropy(logits, torch.arange(len(a)) + rank * len(a))
            """,
            gather,
        ),
        "under no_grad": training(LOCAL_ROWS, "@torch.no_grad()" + gather),
        "a backward that sums": training(ALL_ROWS.format(factor=""), FUNCTION.format(want="", backward=SUMS)),
        "a backward of the local mean": training(
            "loss = Average.apply(F.mse_loss(model(x).sum(1), y.sum(1)))",
            """
            class Average(torch.autograd.Function):
                @staticmethod
                def forward(ctx, x):
                    x = x / dist.get_world_size()
                    dist.all_reduce(x)
                    return x

                @staticmethod
                def backward(ctx, gradient):
                    return gradient
            """,
        ),
        "which examples, not how": training(
            """
            a, b = model(x), model(y)
            hardest = (a @ gather(b).T).argmax(1)
            loss = F.mse_loss(a.sum(1), y.sum(1) + (hardest == 0))
            """,
            gather,
        ),
        "labels that are not known": training(
            """
            import library
            a, b = gather(model(x)), gather(model(y))
            loss = F.cross_entropy(a @ b.T, library.labels(len(a))) * world_size
            """,
            gather,
        ),
        "over another group": training(
            """
            z = model(x)
            dist.all_reduce(z, group=pair)
            loss = F.mse_loss(z.sum(1), y.sum(1))
            """,
            before="""
            pair = dist.new_group([0, 1])
            model = DDP(nn.Linear(4, 8))
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            """,
        ),
    }


@pytest.mark.parametrize("script", [*wrong().values(), *right().values()], ids=[*wrong(), *right()])
def test_detached_collective(script: str, tmp_path, monkeypatch) -> None:
    judge(script, "DP306", tmp_path, monkeypatch)
