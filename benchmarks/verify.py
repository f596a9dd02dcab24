"""What a verification costs beside running the script: `python benchmarks/verify.py`.

Compares, in turn, `dpcheck verify` of three steps with the same three steps run plainly: two ranks as torchrun would
start them, then one process by itself. All of them import torch anew. The bound is 1.5 times the two plain runs.
"""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

FIXTURES = Path(__file__).parent.parent / "fixtures"
BOUND = 1.5
REPEATS = 5


class Program(NamedTuple):
    """A fixture, and the arguments with which two ranks, or one process, make three optimizer steps and end."""

    name: str
    ranks: tuple[str, ...]
    single: tuple[str, ...]


PROGRAMS = (
    Program(
        "masked_prompt_sft",
        ("--epochs", "1", "--num-examples", "36"),
        ("--epochs", "1", "--num-examples", "18"),
    ),
    Program(
        "image_classification",
        ("--epochs", "1", "--num-images", "48"),
        ("--epochs", "1", "--num-images", "48", "--batch-size", "16"),
    ),
    Program("packed_rows", ("--tokens", "361"), ("--tokens", "181")),
)


def main() -> int:
    worst = 0.0
    print("seconds, median of", REPEATS)
    print(f"{'program':24s}{'two ranks':>12s}{'one process':>14s}{'verify':>10s}{'ratio':>8s}")
    for program in PROGRAMS:
        plain, single, verified = zip(*(measure(program) for _ in range(REPEATS)), strict=True)
        together = statistics.median(plain) + statistics.median(single)
        ratio = statistics.median(verified) / together
        worst = max(worst, ratio)
        print(
            f"{program.name:24s}{statistics.median(plain):12.2f}{statistics.median(single):14.2f}"
            f"{statistics.median(verified):10.2f}{ratio:8.2f}"
        )
    print(f"worst ratio {worst:.2f}, bound {BOUND}")
    return 0 if worst <= BOUND else 1


def measure(program: Program) -> tuple[float, float, float]:
    script = FIXTURES / program.name / "right" / "train.py"
    plain = timed(lambda: run([[str(script), *program.ranks, "--device", "cpu"]] * 2))
    single = timed(lambda: run([[str(script), *program.single, "--device", "cpu"]]))
    verify = ["-m", "dpcheck", "verify", "--output", f"json={os.devnull}", str(script), *program.ranks]
    verified = timed(lambda: run([verify]))
    return plain, single, verified


def timed(action: object) -> float:
    assert callable(action)
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def run(commands: list[list[str]]) -> None:
    """Start one process a command, each as one rank of as many, and wait for all."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    running = []
    for rank, command in enumerate(commands):
        environment = {
            **os.environ,
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(len(commands)),
            "LOCAL_WORLD_SIZE": str(len(commands)),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            "OMP_NUM_THREADS": "1",
        }
        running.append(
            subprocess.Popen(
                [sys.executable, *command], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
            )
        )
    for process in running:
        _, errors = process.communicate()
        # torch 2.13 now and then aborts at the end of a run that went well
        if process.returncode not in (0, -6):
            raise SystemExit(errors.decode(errors="replace"))


if __name__ == "__main__":
    sys.exit(main())
