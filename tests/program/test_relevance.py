from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from dpcheck.check import FRAMEWORKS
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


def test_a_trainer_of_its_own() -> None:
    assert is_relevant(b"from composer import Trainer as Base\n\nclass Tuner(base.Trainer):\n    pass\n")


def test_no_word_is_idle() -> None:
    """None holds another, which would find it anyway."""
    assert [word for word in WORDS if any(other in word for other in WORDS if other != word)] == []


def test_programs_that_we_know() -> None:
    root = Path(__file__).parent.parent.parent
    scripts = [path for path in root.glob("fixtures/*/*/*.py") if b"__main__" in path.read_bytes()]
    assert [path for path in scripts if not is_relevant(path.read_bytes())] == []


# ---------------------------------------------------------------- stubs

STARTS = ("start_group", "wrap")  # and not `launch`: processes that never communicate do not train together


def module_name(path: Path) -> str:
    place = path.with_suffix("")
    return ".".join(place.parent.parts if place.name == "__init__" else place.parts)


def imported(path: Path, tree: ast.Module) -> dict[str, tuple[str, str]]:
    """The names that a stub imports anywhere, each with the module and the name in that (none: it is the module)."""
    found = {}
    package = path.parent.parts
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*above, *([node.module] if node.module else [])))
            for alias in node.names:
                found[alias.asname or alias.name] = module, alias.name
        elif isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                found[alias.asname or top] = alias.name if alias.asname else top, ""
    return found


def mentioned(node: ast.AST) -> Iterator[tuple[str, ...]]:
    """The dotted names in a definition."""
    for inner in ast.walk(node):
        names: list[str] = []
        while isinstance(inner, ast.Attribute):
            names.insert(0, inner.attr)
            inner = inner.value
        if isinstance(inner, ast.Name):
            yield (inner.id, *names)


def starting(folder: Path) -> set[tuple[str, str]]:
    """The public functions and classes of the stubs that start a group or wrap a model, themselves or by others."""
    paths = [path.relative_to(folder) for path in folder.rglob("*.py")]
    trees = {module_name(path): (path, ast.parse((folder / path).read_bytes())) for path in paths}
    imports = {module: imported(path, tree) for module, (path, tree) in trees.items()}
    uses: dict[tuple[str, str], set[tuple[str, str]]] = {}

    def meant(module: str, names: tuple[str, ...]) -> tuple[str, str]:
        first, *rest = names
        where, name = imports[module].get(first, (module, first))
        while rest and (not name or f"{where}.{name}" in trees):
            where, name = f"{where}.{name}" if name else where, rest.pop(0)
        return where, name

    for module, (path, tree) in trees.items():
        for node in tree.body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                uses[module, node.name] = {meant(module, names) for names in mentioned(node)}
        if path.name == "__init__.py":
            for name, place in imports[module].items():
                if place[0] != "dpcheck_intrinsics":
                    uses.setdefault((module, name), {place})
    found = {("dpcheck_intrinsics", name) for name in STARTS}
    while new := {definition for definition, used in uses.items() if definition not in found and used & found}:
        found |= new
    return {(module, name) for module, name in found & uses.keys() if not name.startswith("_")}


def unfound(names: set[tuple[str, str]]) -> list[tuple[str, str]]:
    """Those that a script may use without a word in it that makes it relevant."""
    missing = []
    for module, name in sorted(names):
        package, _, last = module.rpartition(".")
        header = f"from {package} import {last}" if package else f"import {module}"
        direct, dotted = f"from {module} import {name}\n{name}(args)\n", f"{header}\n{last}.{name}(args)\n"
        if not is_relevant(direct.encode()) or not is_relevant(dotted.encode()):
            missing.append((module, name))
    return missing


def test_what_stubs_start_is_found() -> None:
    names = starting(FRAMEWORKS)
    assert ("torch.distributed", "init_process_group") in names
    assert ("composer.utils.dist", "initialize_dist") in names
    assert ("lightning.pytorch", "Trainer") in names  # which another module of the stub defines
    assert ("transformers", "Seq2SeqTrainer") in names  # which leaves it to a class above
    assert ("torch.nn", "Linear") not in names
    assert unfound(names) == []


def test_a_stub_whose_words_are_missing(tmp_path: Path) -> None:
    (tmp_path / "acme").mkdir()
    (tmp_path / "acme" / "__init__.py").write_text("from acme.learner import Learner, show\n")
    (tmp_path / "acme" / "learner.py").write_text(
        "from dpcheck_intrinsics import start_group\nfrom . import groups\n\n\n"
        "class Learner:\n    def fit(self):\n        groups.begin()\n\n\ndef show(): ...\n"
    )
    (tmp_path / "acme" / "groups.py").write_text(
        "from dpcheck_intrinsics import start_group as _start\n\n\ndef begin():\n    _start('acme')\n"
    )
    assert unfound(starting(tmp_path)) == [("acme", "Learner"), ("acme.groups", "begin"), ("acme.learner", "Learner")]


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
