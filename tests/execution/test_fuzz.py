"""Random programs, made of the standard library's and of training scripts, never raise out of an execution."""

from __future__ import annotations

import ast
import copy
import functools
import importlib
import inspect
import random
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from dpcheck import registry
from dpcheck.execution import describe
from tests.execution.programs import execute

FIXTURES = Path(__file__).parents[2] / "fixtures"
MODULES = [
    "abc",
    "argparse",
    "bisect",
    "calendar",
    "collections",
    "contextlib",
    "copy",
    "csv",
    "dataclasses",
    "difflib",
    "enum",
    "fractions",
    "functools",
    "graphlib",
    "heapq",
    "inspect",
    "logging",
    "pathlib",
    "pickle",
    "pprint",
    "queue",
    "random",
    "sched",
    "shelve",
    "statistics",
    "string",
    "textwrap",
    "tokenize",
    "types",
    "typing",
    "unittest.mock",
    "weakref",
]
TRAINING = """
import os, torch, torch.distributed as dist, torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, IterableDataset
from torch.utils.data.distributed import DistributedSampler
from accelerate import Accelerator
from transformers import Trainer, TrainingArguments
import lightning as L

def all_reduced(value, op=dist.ReduceOp.SUM):
    value = value.clone()
    dist.all_reduce(value, op=op)
    return value / dist.get_world_size() if op == "mean" else value

def gathered(x):
    parts = [torch.zeros_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, x)
    parts[dist.get_rank()] = x
    return torch.cat(parts, dim=0)

def average_gradients(model):
    for p in model.parameters():
        if p.grad is not None:
            dist.all_reduce(p.grad)
            p.grad /= dist.get_world_size()

def train(model, loader, optimizer, epoch, scaler=None, accumulate=4):
    loader.sampler.set_epoch(epoch)
    total = torch.zeros(2)
    for step, (x, y) in enumerate(loader):
        with torch.autocast("cuda"), model.no_sync():
            losses = F.cross_entropy(model(x), y, reduction="none", ignore_index=-100)
        mask = (y != -100) & (x[:, 0] > 0)
        loss = (losses * mask).sum() * dist.get_world_size() / all_reduced(mask.sum().clamp(min=1))
        (loss / accumulate).backward()
        total[0] += loss.item()
        total[1] += len(x)
        if (step + 1) % accumulate == 0:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
    return total.tolist()

class Net(nn.Module):
    def __init__(self, n=3):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(n, n) for _ in range(n))
        self.scale = nn.Parameter(torch.ones(1))
        self.register_buffer("steps", torch.zeros(1))
    def forward(self, x, **kwargs):
        for layer in self.layers[:-1]:
            x = layer(x).relu() * self.scale
        return self.layers[-1](x)

class Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        dist.all_reduce(x)
        return x
    @staticmethod
    def backward(ctx, grad):
        return grad * dist.get_world_size()

class Stream(IterableDataset):
    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        for i in range(dist.get_rank(), 100, dist.get_world_size()):
            if i % info.num_workers == info.id:
                yield {"x": torch.randn(3), "y": torch.tensor(i)}

class Module(L.LightningModule):
    def training_step(self, batch, index):
        x, y = batch
        loss = F.mse_loss(self(x), y)
        self.log("loss", loss, sync_dist=True)
        return loss
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

class Own(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        outputs = model(**inputs)
        return (outputs.loss, outputs) if return_outputs else outputs.loss

def main():
    dist.init_process_group("nccl")
    torch.manual_seed(0 + dist.get_rank())
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    data = torch.utils.data.TensorDataset(torch.randn(100, 3), torch.randint(0, 3, (100,)))
    sampler = DistributedSampler(data, shuffle=True)
    loader = DataLoader(data, batch_size=8, sampler=sampler, drop_last=True)
    net = Net()
    model = DDP(net.cuda(), device_ids=[dist.get_rank()])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for epoch in range(3):
        print(train(model, loader, optimizer, epoch))
        if dist.get_rank() == 0:
            torch.save(model.state_dict(), "model.pt")
        dist.barrier()
    average_gradients(net)
    accelerator = Accelerator(gradient_accumulation_steps=2)
    model, optimizer, loader = accelerator.prepare(Net(), optimizer, loader)
    for batch in loader:
        with accelerator.accumulate(model):
            accelerator.backward(Sum.apply(gathered(model(batch[0]))).mean())
            optimizer.step()
    L.Trainer(devices=2, accumulate_grad_batches=2).fit(Module(), DataLoader(Stream(), batch_size=4))
    Own(model=net, args=TrainingArguments("out"), train_dataset=data).train()

if __name__ == "__main__":
    main()
"""


class Pool:
    """Pieces of programs: statements and expressions by kind."""

    def __init__(self) -> None:
        self.statements: list[ast.stmt] = []
        self.expressions: list[ast.expr] = []
        for text in texts():
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.stmt) and size(node) < 400:
                    self.statements.append(node)
                elif isinstance(node, ast.expr) and size(node) < 60:
                    self.expressions.append(node)
        self.training = ast.parse(TRAINING).body


def texts() -> Iterator[str]:
    yield TRAINING
    for path in sorted(FIXTURES.glob("*/right/**/*.py")):
        yield path.read_text("utf-8")
    for name in MODULES:
        yield inspect.getsource(importlib.import_module(name))


def size(node: ast.AST) -> int:
    return sum(1 for _ in ast.walk(node))


@functools.cache
def pool() -> Pool:
    return Pool()


class Mutation(ast.NodeTransformer):
    """Replaces, drops and repeats parts of a program at random."""

    def __init__(self, chance: random.Random, rate: float) -> None:
        self.chance = chance
        self.rate = rate

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, ast.JoinedStr):
            return node  # not every expression can be written in one
        node = self.generic_visit(node)
        if self.chance.random() >= self.rate:
            return node
        if isinstance(node, ast.expr) and isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
            return copy.deepcopy(self.chance.choice(pool().expressions))
        if isinstance(node, ast.stmt):
            other = copy.deepcopy(self.chance.choice(pool().statements))
            return self.chance.choice(
                [[node, node], [other, node], [node, other], other, ast.Pass(), self.around(node)]
            )
        if isinstance(node, ast.arg):
            node.arg = self.chance.choice(["self", "x", "model", "loss", "args"])
        if isinstance(node, ast.alias) and node.name != "*":
            node.asname = self.chance.choice(["x", "dist", "torch", "self"])
        return node

    def around(self, node: ast.stmt) -> ast.stmt:
        something = copy.deepcopy(self.chance.choice(pool().expressions))
        name = ast.Name("x", ast.Store())
        shapes: list[ast.stmt] = [
            ast.If(something, [node], []),
            ast.While(something, [node], []),
            ast.For(name, something, [node], []),
            ast.With([ast.withitem(something, name)], [node]),
            ast.Try([node], [], [], [ast.Expr(something)]),
        ]
        return self.chance.choice(shapes)


def program(chance: random.Random) -> str:
    """A program, or text that is none: a mutation may have put a `return` where none may stand."""
    body = [at_top_level(copy.deepcopy(node)) for node in chance.sample(pool().statements, chance.randint(1, 10))]
    if chance.random() < 0.7:
        body[chance.randint(0, len(body)) : 0] = copy.deepcopy(pool().training)
    definitions = [node for node in body if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    for node in chance.sample(definitions, min(len(definitions), 6)):
        arguments = [copy.deepcopy(chance.choice(pool().expressions)) for _ in range(chance.randint(0, 3))]
        arguments = [each for each in arguments if not isinstance(each, ast.Starred)]
        body.append(ast.Expr(ast.Call(ast.Name(node.name, ast.Load()), arguments, [])))
    tree = Mutation(chance, chance.choice([0.0, 0.002, 0.01, 0.05])).visit(ast.Module(body, []))
    return ast.unparse(ast.fix_missing_locations(tree))


def at_top_level(node: ast.stmt) -> ast.stmt:
    """The statement, or a function with it where it may only stand in one."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef, ast.Import)):
        return node
    loop = ast.For(ast.Name("x", ast.Store()), ast.Name("xs", ast.Load()), [node], [])
    parameters = ast.arguments([], [ast.arg("self"), ast.arg("xs")], None, [], [], None, [])
    return ast.FunctionDef("work", parameters, [loop], [], None)


@hypothesis.settings(max_examples=25, deadline=None, suppress_health_check=list(hypothesis.HealthCheck))
@hypothesis.given(st.integers(0, 10**9))
def test_random_programs_never_raise(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    check_program(tmp_path_factory.mktemp("program"), seed)


def check_program(folder: Path, seed: int) -> bool:
    """Execute the program of that number, if it is one; anything raised is a failure."""
    text = program(random.Random(seed))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(text, "train.py", "exec")
    except (SyntaxError, ValueError):
        return False
    run = execute(folder, text)
    describe(run)
    for entry in registry.load().entries:
        if entry.check is not None:
            list(entry.check(run))
    return True
