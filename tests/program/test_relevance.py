from __future__ import annotations

from pathlib import Path

import pytest

from dpcheck.program.relevance import WORDS, imports, is_relevant

LICENCE = b"""# Licensed under the Apache License, Version 2.0 (the "License");
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS,
# WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
"""


@pytest.mark.parametrize(
    "text",
    [
        "import torch.distributed as dist",
        "from torch import distributed",
        "from torch.nn.parallel import DistributedDataParallel as D",
        "model = nn.DataParallel(model)",
        "from torch.utils.data.distributed import DistributedSampler",
        "dist.init_process_group('nccl')",
        "from torch.distributed.fsdp import FullyShardedDataParallel",
        "fully_shard(model)",
        "from accelerate import Accelerator",
        "import accelerate",
        "import lightning as L",
        "import pytorch_lightning as pl",
        "class M(LightningModule): ...",
        "trainer = Trainer(model)",
        "args = TrainingArguments()",
        "import horovod.torch as hvd",
        "import deepspeed",
        "mp.spawn(main, nprocs=2)",
        "subprocess.run(['torchrun', 'train.py'])",
        "fabric = Fabric(devices=2)",
        "loss.backward()",
        "optimizer.zero_grad()",
        "optimizer.step()",
        "rank = int(os.environ['LOCAL_RANK'])",
        "def train(rank, world_size): ...",
    ],
)
def test_what_is_relevant(text: str) -> None:
    assert is_relevant(text.encode())
    assert is_relevant(LICENCE + text.encode())


@pytest.mark.parametrize("text", [LICENCE, b"", b"import torch\nclass Net(torch.nn.Module): ...\n", b"import numpy\n"])
def test_what_is_not(text: bytes) -> None:
    assert not is_relevant(text)


def test_no_word_is_idle() -> None:
    """None holds another, which would find it anyway."""
    assert [word for word in WORDS if any(other in word for other in WORDS if other != word)] == []


def test_programs_that_we_know() -> None:
    root = Path(__file__).parent.parent.parent
    scripts = [path for path in root.glob("fixtures/*/*/*.py") if b"__main__" in path.read_bytes()]
    assert [path for path in scripts if not is_relevant(path.read_bytes())] == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import a", [(0, "a")]),
        ("import a.b as c, d", [(0, "a.b"), (0, "d")]),
        ("from a.b import c as d, e", [(0, "a.b"), (0, "a.b.c"), (0, "a.b.e")]),
        ("from a import (\n    b,\n    c as d,  # e\n)", [(0, "a"), (0, "a.b"), (0, "a.c")]),
        ("from . import a", [(1, ""), (1, "a")]),
        ("from ..a import *", [(2, "a")]),
        ("try:\n\timport a\nexcept ImportError: pass", [(0, "a")]),
        ("import a; x = 1", [(0, "a")]),
        ("import a  # import b", [(0, "a")]),
        ("x = 'import a'\n# import b\nreimport = 1", []),
        ("import a\r\nimport b\r\n", [(0, "a"), (0, "b")]),
    ],
)
def test_imports(text: str, found: list[tuple[int, str]]) -> None:
    assert list(imports(text.encode())) == found
