"""Run training scripts to their end and record their first updates, many of them for the price of one torch import.

Reads one job a line from standard input, `{"script": …, "arguments": […], "ranks": 2, "dtype": "float64"}`, forks a
process for each rank and answers with one line, `{"codes": […], "output": …, "records": […]}`. A rank's record holds
the gradient that the first optimizer step saw and the orders in which shuffling DistributedSamplers drew their indices.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # DDP and the optimizers import it, which takes seconds: once, before the forks
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils.data import DistributedSampler

TIME_LIMIT = 60


def serve() -> None:
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line))), flush=True)


def run(job: dict[str, Any]) -> dict[str, Any]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        children = []
        for rank in range(job["ranks"]):
            child = os.fork()
            if child == 0:
                signal.alarm(TIME_LIMIT)
                run_rank(job, rank, port, folder)
            children.append(child)
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        output = "".join(path.read_text("utf-8") for path in sorted(folder.glob("output.*")))
        records = [json.loads(path.read_text("utf-8")) for path in sorted(folder.glob("record.*"))]
    return {"codes": codes, "output": output, "records": records}


def run_rank(job: dict[str, Any], rank: int, port: int, folder: Path) -> None:
    """Be one rank of the job; never returns."""
    with (folder / f"output.{rank}").open("wb") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    code = 1
    try:
        for variable in ("WORLD_SIZE", "LOCAL_WORLD_SIZE"):
            os.environ[variable] = str(job["ranks"])
        for variable in ("RANK", "LOCAL_RANK"):
            os.environ[variable] = str(rank)
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        keep_process_groups()
        torch.set_default_dtype(getattr(torch, job["dtype"]))
        record = watch()
        sys.argv = [job["script"], *job["arguments"]]
        sys.path[0] = str(Path(job["script"]).parent)
        runpy.run_path(job["script"], run_name="__main__")
        (folder / f"record.{rank}").write_text(json.dumps(record), "utf-8")
        code = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def keep_process_groups() -> None:
    """Let no process group be destroyed before this process ends, which it must do with `os._exit`.

    In torch 2.13 the destructor of a gloo group joins the group's threads under the GIL, and they may be waiting for
    the GIL to drop their last piece of work: one run in ten hangs when its wrapped model is freed, or aborts while the
    interpreter goes down.
    """
    torch.distributed.destroy_process_group = lambda group=None: None


def watch() -> dict[str, list[Any]]:
    """Hook into the optimizers and samplers of this process; what they do is written to the lists returned."""
    gradient: list[float] = []
    orders: list[list[int]] = []

    def before_step(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        if gradient:
            return
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                assert parameter.grad is not None
                gradient.extend(parameter.grad.flatten().tolist())

    draw = DistributedSampler.__iter__

    def recorded_draw(sampler: DistributedSampler[Any]) -> Iterator[int]:
        indices = list(draw(sampler))
        if sampler.shuffle:
            orders.append(indices)
        return iter(indices)

    register_optimizer_step_pre_hook(before_step)
    DistributedSampler.__iter__ = recorded_draw  # type: ignore[method-assign,assignment]
    return {"gradient": gradient, "orders": orders}


if __name__ == "__main__":
    serve()
