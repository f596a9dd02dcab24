"""From a script to the report: what only shows when the hooks, the launcher and the judges work together."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from dpcheck.verify import plan
from dpcheck.verify.options import Options
from dpcheck.verify.result import Report

START = """
import torch, torch.distributed as dist, torch.nn as nn, torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset
dist.init_process_group("gloo")
rank = dist.get_rank()
generator = torch.Generator().manual_seed(5)
data = TensorDataset(torch.randn(24, 4, generator=generator), torch.randn(24, 1, generator=generator))
loader = DataLoader(data, 4, sampler=DistributedSampler(data))
"""


def run(tmp_path: Path, body: str, **options: object) -> tuple[Report, list[tuple[str, str]]]:
    """The report, and the codes of the findings with the text of their lines."""
    script = tmp_path / "train.py"
    script.write_text(START + dedent(body))
    lines = script.read_text().splitlines()
    report = plan.verify(Options(script="train.py", directory=tmp_path, **options))  # type: ignore[arg-type]
    return report, [(found.code, lines[found.line - 1].strip()) for found in report.findings]


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What is found here is measured: the source is not asked."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plan, "static_findings", lambda options: [])


def test_weights_from_seeds_of_the_ranks(tmp_path: Path) -> None:
    """The seed before the model counts, not the one after it."""
    report, found = run(
        tmp_path,
        """
        torch.manual_seed(rank)
        model = nn.Linear(4, 1)
        torch.manual_seed(100)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for x, y in loader:
            optimizer.zero_grad()
            F.mse_loss(model(x), y).backward()
            for p in model.parameters():
                dist.all_reduce(p.grad)
                p.grad /= 2
            optimizer.step()
        """,
    )
    assert (report.verdict, found) == ("different", [("DP102", "torch.manual_seed(rank)")])
    assert "seeds: rank 0 0, rank 1 1" in report.findings[0].evidence


def test_a_forward_past_the_wrapper(tmp_path: Path) -> None:
    report, found = run(
        tmp_path,
        """
        model = DDP(nn.Linear(4, 1))
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for x, y in loader:
            optimizer.zero_grad()
            F.mse_loss(model.module(x), y).backward()
            optimizer.step()
        """,
    )
    assert report.verdict == "different"
    assert [code for code, _ in found] == ["DP401"]
    assert "model.module(x)" in found[0][1]
    assert report.findings[0].alternatives == []


@pytest.mark.parametrize(("condition", "code"), [("True", "DP601"), ("rank == 0", "DP502")])
def test_an_exit_from_the_loop(tmp_path: Path, condition: str, code: str) -> None:
    """Every rank evaluates its own part and decides for itself, or one does so alone."""
    report, found = run(
        tmp_path,
        f"""
        model = DDP(nn.Linear(4, 1))
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for epoch in range(3):
            for x, y in loader:
                optimizer.zero_grad()
                F.mse_loss(model(x), y).backward()
                optimizer.step()
            if {condition}:
                with torch.no_grad():
                    part = torch.tensor([[0.0], [9.0]])[rank::2]
                    error = F.mse_loss(model.module(part.expand(-1, 4)) * 0, part)
                if error.item() < 1:
                    break
        """,
        steps=8,
    )
    assert report.verdict in ("hang", "mismatch")
    assert [found_code for found_code, _ in found] == [code]


def test_a_process_that_hangs_tells_how_far_it_came(tmp_path: Path) -> None:
    report, found = run(
        tmp_path,
        """
        model = DDP(nn.Linear(4, 1))
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for step, (x, y) in enumerate(loader):
            optimizer.zero_grad()
            F.mse_loss(model(x), y).backward()
            optimizer.step()
            if rank == 0 and step == 1:
                dist.barrier()
        """,
    )
    assert (report.verdict, found) == ("hang", [("DP501", "dist.barrier()")])
    assert (report.steps, [end.steps for end in report.endings]) == (2, [2, 2])


def test_a_model_that_enlarges_rounding(tmp_path: Path) -> None:
    """A billionth in one rank's loss is less than what other rounding of the weights would make of this gradient."""
    body = """
        torch.manual_seed(0)
        model = DDP(nn.Sequential(nn.Linear(4, 301), nn.Tanh(), nn.Linear(301, 1)))
        optimizer = torch.optim.SGD(model.parameters(), 1e-9)
        for x, y in loader:
            optimizer.zero_grad()
            (F.mse_loss(torch.sin(SCALE * model(x)), y) * (1 + 3e-9 * rank)).backward()
            optimizer.step()
    """
    report, _ = run(tmp_path, body.replace("SCALE", "3e6"))
    assert (report.verdict, report.objective.equal) == ("equivalent", True)
    assert report.objective.relative_error is not None
    assert 1e-10 < report.objective.relative_error < 1e-8
    assert run(tmp_path, body.replace("SCALE", "1"))[0].verdict == "inconclusive"


def test_a_mean_over_uneven_targets(tmp_path: Path) -> None:
    report, found = run(
        tmp_path,
        """
        model = DDP(nn.Linear(4, 3))
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        labels = (data.tensors[1][:, 0] > 0).long()
        labels[6::8] = labels[3::8] = labels[5::8] = labels[7::8] = -100
        data = TensorDataset(data.tensors[0], labels)
        for x, y in DataLoader(data, 4, sampler=DistributedSampler(data, shuffle=False)):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
        """,
    )
    assert (report.verdict, [code for code, _ in found]) == ("different", ["DP301"])
    assert report.objective.targets == [3, 1]
    assert "rank 1's single target weighs 3 × each of rank 0's" in report.objective.sentence
    assert report.sync.bitwise is True
