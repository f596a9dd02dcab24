"""How long executing a program takes, apart from reading it: `python benchmarks/execution.py`.

Programs of growing size are generated: a training script whose model, data and losses are spread over modules of many
functions that call one another. Times are those of the processor, from a program that has been read.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import tempfile
import time
from pathlib import Path

from dpcheck.check import FRAMEWORKS
from dpcheck.execution import interpreter
from dpcheck.execution.entry import execute_script
from dpcheck.program.cache import Cache
from dpcheck.program.link import Program
from dpcheck.source.files import Selection

SIZES = (1, 2, 4, 8, 16)
LINEAR = 1.2
PARTS = 12
"""So many parts make a program of size 1."""

PART = """
import torch
from torch import nn

class Block{n}(nn.Module):
    def __init__(self, width, scale=1.0):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(3)])
        self.scale = scale
        self.options = {{"dropout": 0.1, "names": ["a", "b", "c"]}}

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
            if self.scale > 0.5 or x.shape[0] > 4:
                x = x * self.scale + self.bias(x)
        return x

    def bias(self, x):
        return sum(self.scale for name in self.options["names"] if name != "b")

def prepare{n}(config, seen=None):
    seen = [] if seen is None else seen
    for key, value in config.items():
        try:
            seen.append((key, float(value)))
        except ValueError:
            continue
    total = {{key: value * {n} for key, value in seen}}
    return total if len(total) > 1 else dict(seen)

def loss{n}(logits, target, weight=None):
    losses = nn.functional.cross_entropy(logits, target, reduction="none", ignore_index=-100)
    mask = target != -100
    if weight is not None:
        losses = losses * weight
    return (losses * mask).sum() / mask.sum().clamp(min=1)
"""
SCRIPT = """
import argparse
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler
{imports}

def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    args = parser.parse_args()
    dist.init_process_group("nccl")
    config = {{"lr": "0.1", "decay": "0.01", "name": "x"}}
{prepared}
    model = DistributedDataParallel(torch.nn.Sequential({blocks}))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = TensorDataset(torch.randn(100, 8), torch.randint(0, 8, (100,)))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=4, sampler=sampler)
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for x, y in loader:
            out = model(x)
            loss = {losses}
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

if __name__ == "__main__":
    main()
"""


def write(folder: Path, parts: int) -> tuple[Path, int]:
    numbers = range(parts)
    texts = {f"part{n}.py": PART.format(n=n) for n in numbers}
    texts["train.py"] = SCRIPT.format(
        imports="\n".join(f"from part{n} import Block{n}, loss{n}, prepare{n}" for n in numbers),
        prepared="\n".join(f"    config = prepare{n}(config)" for n in numbers),
        blocks=", ".join(f"Block{n}(8)" for n in numbers),
        losses=" + ".join(f"loss{n}(out, y)" for n in numbers),
    )
    for name, text in texts.items():
        (folder / name).write_text(text, "utf-8")
    return folder / "train.py", sum(text.count("\n") for text in texts.values())


def seconds(entry: Path, rounds: int, cache: Cache) -> tuple[float, bool]:
    """The median over some executions, and whether they came to the end."""
    times = []
    complete = True
    for _ in range(rounds):
        program = Program(Selection((entry,), roots=(entry.parent,)), cache=cache, stub_folder=FRAMEWORKS)
        unit = program.unit(entry)
        execute_script(program, unit)  # reads what the program imports
        started = time.process_time()
        complete = execute_script(program, unit).complete and complete
        times.append(time.process_time() - started)
    return statistics.median(times), complete


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    cache = Cache()
    print("size   lines   seconds   per 1000 lines")
    measured: list[tuple[int, float]] = []
    for size in SIZES:
        with tempfile.TemporaryDirectory() as name:
            entry, lines = write(Path(name), PARTS * size)
            taken, complete = seconds(entry, options.rounds, cache)
        measured.append((lines, taken))
        print(f"{size:4d} {lines:7d} {taken:9.3f} {taken / lines * 1000:12.3f}{'' if complete else '   incomplete'}")
    growth = slope(measured)
    print(f"seconds ~ lines^{growth:.2f} {'(linear)' if growth < LINEAR else '(NOT linear)'}")
    print(f"bound for each entry point: {interpreter._MOST_STEPS} steps, {interpreter._MOST_SECONDS} s")
    sys.exit(growth >= LINEAR)


def slope(measured: list[tuple[int, float]]) -> float:
    """The exponent with which the time grows, over the upper half of the sizes."""
    (x, a), (y, b) = measured[len(measured) // 2], measured[-1]
    return math.log(b / a) / math.log(y / x)


if __name__ == "__main__":
    main()
