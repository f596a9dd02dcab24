"""Training goes as it does with `torch._dynamo`, without importing it; and whoever wants the real module gets it."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import textwrap

import pytest

pytest.importorskip("torch")

ROOT = pathlib.Path(__file__).parent.parent.parent

TRAIN = """
import hashlib, os, sys, tempfile, torch
import torch.distributed as dist
from torch._C._distributed_c10d import HashStore
from torch.utils.checkpoint import checkpoint
from dpcheck.verify import dynamo

def digest(model):
    return hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest()

def train(model, make, **options):
    optimizer = make(model.parameters(), **options)
    def closure():
        optimizer.zero_grad()
        loss = model(torch.arange(12.0).reshape(3, 4) / 12).square().sum()
        loss.backward()
        return loss
    for _ in range(2):
        if make is torch.optim.LBFGS:
            optimizer.step(closure)
        else:
            closure()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()

class Checkpointed(torch.nn.Module):
    def __init__(self, reentrant):
        super().__init__()
        self.layer, self.reentrant = torch.nn.Linear(4, 4), reentrant
    def forward(self, x):
        return checkpoint(self.layer, x.requires_grad_(), use_reentrant=self.reentrant)

def everything(absent):
    dist.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    torch.manual_seed(0)
    for make in (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.Adagrad, torch.optim.RMSprop,
                 torch.optim.NAdam, torch.optim.RAdam, torch.optim.Adamax, torch.optim.Adadelta, torch.optim.ASGD,
                 torch.optim.Rprop, torch.optim.LBFGS, torch.optim.Adafactor):
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2))
        train(model, make)
        print(make.__name__, digest(model))
    for reentrant in (False, True):
        model = torch.nn.parallel.DistributedDataParallel(Checkpointed(reentrant))
        train(model, torch.optim.SGD)
        print("checkpoint", digest(model))
    from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
    model = FullyShardedDataParallel(torch.nn.Linear(4, 2), device_id=torch.device("cpu"))
    train(model, torch.optim.SGD)
    print("fsdp", digest(model))
    assert ("torch._dynamo.config" in sys.modules) != absent
    from torch.distributed.device_mesh import init_device_mesh
    model = fully_shard(torch.nn.Linear(4, 2), mesh=init_device_mesh("cpu", (1,)))
    for _ in range(2):
        model(torch.ones(3, 4)).sum().backward()
        torch.optim.SGD(model.parameters(), lr=0.1).step()
    print("fully_shard", [p.full_tensor().sum().item() for p in model.parameters()])
"""


def python(text: str) -> str:
    program = TRAIN + textwrap.dedent(text)
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_training_is_the_same_without_it() -> None:
    without = python("""
        assert dynamo.leave_out()
        everything(absent=True)
    """)
    assert without.count("\n") == 17
    assert without == python("import torch._dynamo\nassert not dynamo.leave_out()\neverything(absent=False)\n")


def test_the_real_module_is_there_for_who_asks() -> None:
    assert (
        python("""
        assert dynamo.leave_out()
        def in_a_child(check):
            if (child := os.fork()) == 0:
                check()
                assert "torch._dynamo.config" in sys.modules
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0, check
        def by_name():
            import torch._dynamo as d
            d.config.suppress_errors = True
            assert torch._dynamo.config.suppress_errors is True
            d.reset()
            assert torch.compile(lambda x: x + 1, backend="eager")(torch.zeros(1)).item() == 1
        def from_it():
            from torch._dynamo import config
            assert config is torch._dynamo.config
        def a_submodule():
            import torch._dynamo.utils
            assert torch._dynamo.utils.counters is not None
        for check in (by_name, from_it, a_submodule):
            in_a_child(check)
        print("all")
    """)
        == "all\n"
    )


def test_on_an_untried_release_it_is_tried_first() -> None:
    assert (
        python("""
        dynamo._TESTED = ()
        answers, dynamo._ANSWERS = dynamo._ANSWERS, {}
        if os.fork() == 0:
            assert not dynamo.leave_out()
            assert "torch._dynamo.config" in sys.modules
            os._exit(0)
        assert os.wait()[1] == 0
        dynamo._ANSWERS = answers
        assert dynamo.leave_out()
        assert "torch._dynamo.config" not in sys.modules
        print("all")
    """)
        == "all\n"
    )
