"""Which groups are the one over which gradients are averaged."""

from __future__ import annotations

import pytest

from tests.rules.trainings import judge, training

COUNTED = """
losses = F.mse_loss(model(x), y, reduction="none")
count = (y > 0).sum()
dist.all_reduce(count, group=group){want}
loss = (losses * (y > 0)).sum() * world_size / count
"""
WANT = "  # want: DP308"
MESH = """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
"""
OPTIMIZER = "\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
WRONG = {
    "some ranks": "group = dist.new_group([0, 1])\nmodel = DDP(nn.Linear(4, 4))",
    "gradients over some ranks": "group = None\nmodel = DDP(nn.Linear(4, 4), process_group=dist.new_group([0, 1]))",
    "two groups": "group = dist.new_group([0, 1])\nmodel = DDP(nn.Linear(4, 4), process_group=dist.new_group([0, 2]))",
    "one dimension of a mesh": """
        mesh = init_device_mesh("cpu", (world_size // 2, 2), mesh_dim_names=("dp", "cp"))
        group = mesh.get_group("dp")
        model = DDP(nn.Linear(4, 4))
        """,
    "another dimension of a mesh": """
        mesh = init_device_mesh("cpu", (world_size // 2, 2), mesh_dim_names=("dp", "cp"))
        group = mesh["cp"].get_group()
        model = fully_shard(nn.Linear(4, 4), mesh=mesh["dp"])
        """,
}
RIGHT = {
    "the same group": "group = dist.new_group([0, 1])\nmodel = DDP(nn.Linear(4, 4), process_group=group)",
    "a group of all": "group = dist.new_group(list(range(world_size)))\nmodel = DDP(nn.Linear(4, 4))",
    "another backend": 'group = dist.new_group(backend="gloo")\nmodel = DDP(nn.Linear(4, 4))',
    "the world by name": "group = dist.group.WORLD\nmodel = DDP(nn.Linear(4, 4))",
    "a mesh of one dimension": """
        mesh = init_device_mesh("cpu", (world_size,), mesh_dim_names=("dp",))
        group = mesh.get_group("dp")
        model = DDP(nn.Linear(4, 4))
        """,
    "the dimension that is averaged": """
        mesh = init_device_mesh("cpu", (world_size // 2, 2), mesh_dim_names=("dp", "tp"))
        group = mesh.get_group("dp")
        model = fully_shard(nn.Linear(4, 4), mesh=mesh["dp"])
        """,
    "a group of a library": "import parallel\ngroup = parallel.group()\nmodel = DDP(nn.Linear(4, 4))",
}


def script(groups: str, want: str) -> str:
    lines = "\n".join(line.strip() for line in groups.strip().splitlines())
    return training(COUNTED.format(want=want), MESH, "torch.manual_seed(0)\n" + lines + OPTIMIZER)


@pytest.mark.parametrize("groups", WRONG.values(), ids=WRONG)
def test_another_group(groups: str, tmp_path, monkeypatch) -> None:
    judge(script(groups, WANT), "DP308", tmp_path, monkeypatch)


@pytest.mark.parametrize("groups", RIGHT.values(), ids=RIGHT)
def test_the_same_ranks(groups: str, tmp_path, monkeypatch) -> None:
    judge(script(groups, ""), "DP308", tmp_path, monkeypatch)


def test_one_group_after_the_other(tmp_path, monkeypatch) -> None:
    body = COUNTED.format(want="").replace("loss = (", "dist.all_reduce(count, group=across)\nloss = (")
    before = "group, across = dist.new_group([0, 1]), dist.new_group([0, 2])\nmodel = DDP(nn.Linear(4, 4))" + OPTIMIZER
    judge(training(body, before=before), "DP308", tmp_path, monkeypatch)
