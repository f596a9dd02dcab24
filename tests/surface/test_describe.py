"""What `dpcheck describe` says of scripts."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpcheck.check import descriptions, link
from dpcheck.config import Settings
from dpcheck.findings.result import InternalError

START = """\
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("gloo")
data = TensorDataset(torch.randn(64, 4), torch.randint(0, 2, (64,)))
sampler = DistributedSampler(data)
net = nn.Linear(4, 2)
model = DistributedDataParallel(net)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
LOADER = "loader = DataLoader(data, batch_size=8, sampler=sampler)\n"
TRAIN = """\
for x, y in loader:
    F.cross_entropy(model(x), y).backward()
    optimizer.step()
"""


def said(folder: Path, text: str, label: str) -> list[str]:
    """What stands behind the label in the description of the script, without the places."""
    (lines,) = described(folder, text)
    return [line[18:].split("  [")[0] for line in lines[1:] if line[:18].strip() == label]


def described(folder: Path, text: str) -> list[list[str]]:
    (folder / "train.py").write_text(text, "utf-8")
    errors: list[InternalError] = []
    _, program = link([folder / "train.py"], Settings(root=folder, cache=False))
    found = list(descriptions(program, errors))
    assert errors == []
    return found


def test_a_script(here: Path) -> None:
    ((title, *lines),) = described(here, START + LOADER + TRAIN)
    term = "Ratio, a mean over this rank's targets, as many on every rank; scale of the update: as intended"
    loading = "batches of 8, DistributedSampler, never told the epoch: each rank has data of its own"
    assert title == "train.py"
    assert [(line[:18].rstrip(), *line[18:].split("  ")) for line in lines] == [
        ("  group", "the process group is started here; W ranks, W > 1", "[train.py:8]"),
        ("  model", "Linear: initial weights never seeded: different on each rank", "[train.py:11]"),
        ("  wrapper", "DDP: copies rank 0's weights to all ranks, averages gradients over the ranks", "[train.py:12]"),
        ("  loader", loading, "[train.py:14]"),
        ("  update", "gradients averaged over the ranks", "[train.py:17]"),
        ("    loss term", term, "[train.py:16]"),
        ("    global batch", "microbatch 8 × accumulation 1 × ranks W"),
    ]


def test_what_several_paths_do_alike_is_said_once(here: Path) -> None:
    text = f"{START}def prepare():\n    return DataLoader(data, batch_size=8, sampler=sampler)\n"
    text += "def step():\n    optimizer.step()\n"
    text += "loader = prepare() if unknown else prepare()\n"
    text += "for x, y in loader:\n    loss = F.cross_entropy(model(x), y)\n    loss.backward()\n"
    text += "    if unknown:\n        step()\n    else:\n        step()\n"
    (lines,) = described(here, text)
    assert len(set(lines)) == len(lines)
    assert said(here, text, "loader") == [
        "batches of 8, DistributedSampler, never told the epoch: each rank has data of its own"
    ]
    assert said(here, text, "update") == ["gradients averaged over the ranks"]


def test_a_term_is_said_with_all_that_shows_it_uneven(here: Path) -> None:
    text = START + LOADER + TRAIN.replace("model(x), y", "model(x)[y > 0], y[y > 0], ignore_index=1")
    (term,) = said(here, text, "loss term")
    assert term == (
        "Ratio, a mean over this rank's targets, of which the ranks hold different numbers; "
        "no scale makes the update the intended one"
    )
    reasons = said(here, text, "because")
    assert len(reasons) == len(set(reasons)) > 0


@pytest.mark.parametrize(
    ("loss", "scale"),
    [
        ("F.cross_entropy(model(x), y) * dist.get_world_size()", "scale of the update: W^1 times the intended one"),
        ("F.cross_entropy(model(x), y, reduction='sum')", "scale of the update not judged, as no count divides it"),
        ("F.cross_entropy(model(x), y)", "scale of the update: as intended"),
    ],
)
def test_the_scale_of_a_term(here: Path, loss: str, scale: str) -> None:
    (term,) = said(here, START + LOADER + TRAIN.replace("F.cross_entropy(model(x), y)", f"({loss})"), "loss term")
    assert term.endswith(f"; {scale}")


@pytest.mark.parametrize(
    ("loader", "loading", "microbatch"),
    [
        ("DataLoader(data, batch_sampler=BatchSampler(sampler, 6, True))", "6, BatchSampler, DistributedSampler", "6"),
        ("DataLoader(data, batch_sampler=unread(sampler))", "unknown size, no sampler given", "unknown"),
        ("DataLoader(data, unknown, sampler=sampler)", "unknown size, DistributedSampler", "unknown"),
        (f"DataLoader(data, 0x{'f' * 5000}, sampler=sampler)", "unknown size, DistributedSampler", "unknown"),
    ],
)
def test_the_size_of_a_batch(here: Path, loader: str, loading: str, microbatch: str) -> None:
    text = f"{START}from elsewhere import unknown, unread\nloader = {loader}\n{TRAIN}"
    assert [line.split(", never told")[0].split(":")[0] for line in said(here, text, "loader")] == [
        f"batches of {loading}"
    ]
    assert said(here, text, "global batch") == [f"microbatch {microbatch} × accumulation 1 × ranks W"]


def test_a_loader_that_a_framework_shares_out(here: Path) -> None:
    text = START.replace('dist.init_process_group("gloo")', "accelerator = Accelerator()")
    text = f"from accelerate import Accelerator\n{text}loader = DataLoader(data, batch_size=8, shuffle=True)\n"
    text += "net, optimizer, loader = accelerator.prepare(net, optimizer, loader)\n"
    text += "for x, y in loader:\n    accelerator.backward(F.cross_entropy(net(x), y))\n    optimizer.step()\n"
    assert said(here, text, "loader") == ["batches of 8, shared out by accelerate: each rank has data of its own"]
    assert said(here, text, "global batch") == ["microbatch 8 × accumulation 1 × ranks W"]


def test_a_reduction_that_was_not_followed_is_not_denied(here: Path) -> None:
    text = START + LOADER + "other = torch.optim.SGD([torch.zeros(1)], 0.1)\nw = nn.Linear(1, 1)\n"
    text += "for x, y in loader:\n    w(torch.ones(1)).sum().backward()\n    other.step()\n"
    assert said(here, text, "update") == ["how its gradients are reduced over the ranks was not followed"]
    alone = text.replace("model = DistributedDataParallel(net)", "model = net")
    assert said(here, alone, "update") == ["no reduction of gradients in sight"]


def test_a_function_is_named(here: Path) -> None:
    text = START.replace('dist.init_process_group("gloo")\n', "")
    body = "".join(f"        {line}\n" for line in (LOADER + TRAIN).splitlines())
    title, *_ = described(here, f"{text}class Runner:\n    def fit(self):\n{body}")[-1]
    assert title == "train.py:14 Runner.fit, called with unknown arguments"


def test_what_is_not_known_is_said_with_its_name_and_place(here: Path) -> None:
    text = START + LOADER + TRAIN + "class Run:\n    pass\n\nprint(gone)\nprint(gone)\nprint(Run().pace)\n"
    (lines,) = described(here, text + "from elsewhere import call\ncall()\n")
    assert [line[18:] for line in lines[1:] if line[:18].strip() == "not seen"] == [
        "the name gone, which nothing defines (2 times)  [train.py:21]",
        "the attribute pace of Run, which nothing sets  [train.py:23]",
        "a call of elsewhere.call  [train.py:25]",
    ]


def test_a_run_without_an_end_is_not_passed_over(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "import torch\n" + "torch.zeros(1)\n" * 200 + START + LOADER + TRAIN
    assert described(here, text)[0][0] == "train.py"
    monkeypatch.setattr("dpcheck.execution.interpreter._MOST_STEPS", 300)
    (lines,) = described(here, text)
    assert [line.split("  ")[0] for line in (lines[0], *(line[18:] for line in lines[1:]))] == [
        "train.py",
        "nothing that starts or joins ranks was seen as far as the run was followed",
        "no optimizer step with a backward before it was seen (steps: 0, backwards: 0)",
        "the budget of steps ran out before the end: absence proves nothing in this run",
    ]
    assert described(here, "import torch\n" + "torch.zeros(1)\n" * 20) == []


def test_kinds_that_are_left_out_are_counted(here: Path) -> None:
    calls = "".join(f"import unread{number}\nunread{number}.call()\n" for number in range(20))
    unseen = said(here, START + calls, "not seen")
    assert len(unseen) == 9
    assert unseen[-1] == "and 12 other kinds of things"


def test_a_function_in_front_is_not_taken_for_the_file(here: Path) -> None:
    text = "".join(f"    {line}\n" for line in (START + LOADER + TRAIN).splitlines() if "init_process" not in line)
    assert described(here, f"def fit():\n{text}")[-1][0] == "train.py:1 fit, called with unknown arguments"


def test_a_file_that_starts_with_what_trains_is_named_by_itself(here: Path) -> None:
    body = "".join(f"    {line}\n" for line in (START + LOADER + TRAIN).splitlines())
    assert described(here, f"def main():\n{body}\nmain()\n")[0][0] == "train.py"
    assert described(here, f"with context():\n{body}")[0][0] == "train.py"


def test_a_console_script_is_named(here: Path) -> None:
    (here / "pyproject.toml").write_text('[project]\nname = "x"\n[project.scripts]\nx = "train:main"\n')
    body = "".join(f"    {line}\n" for line in (START + LOADER + TRAIN).splitlines())
    assert described(here, f"def main():\n{body}")[0][0] == "train.py:1 main, called by an installed script"
