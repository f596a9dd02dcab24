"""The right programs in fixtures/, and what an operator asks of one."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import libcst as cst

from tests.mutation.editing import Edits, Source, argument
from tests.wants import wants

FIXTURES = Path(__file__).parent.parent.parent / "fixtures"
WRAPPERS = ("DistributedDataParallel",)
OTHER_ENGINES = re.compile(r"\b(deepspeed|lightning|transformers|accelerate)\b")


@dataclasses.dataclass(frozen=True, eq=False)
class Program:
    """Files by name; `entry` is the one to run."""

    name: str
    files: Mapping[str, str]
    entry: str

    @functools.cached_property
    def sources(self) -> list[Source]:
        return [Source(path, text) for path, text in self.files.items()]

    @functools.cached_property
    def code(self) -> str:
        """All text, without its comments."""
        return "\n".join(re.sub(r"#.*", "", text) for text in self.files.values())

    def mentions(self, pattern: str) -> bool:
        return re.search(pattern, self.code) is not None

    def calls(self, *names: str) -> Iterator[tuple[Source, cst.Call]]:
        for source in self.sources:
            for call in source.calls(*names):
                yield source, call

    @functools.cached_property
    def engine(self) -> str:
        """What reduces the gradients: ddp, fsdp1, fsdp2, horovod, accelerate, hand; else empty."""
        if self.mentions(r"\b(deepspeed|lightning|transformers)\b"):
            return ""
        if self.mentions(r"\baccelerate\b"):
            return "accelerate"
        if self.mentions(r"\bhorovod\b"):
            return "horovod"
        if self.mentions(r"\bfully_shard\b"):
            return "fsdp2"
        if self.mentions(r"\bFullyShardedDataParallel\b"):
            return "fsdp1"
        reduced = self.mentions(r"\.grad\b") and self.mentions(r"all_reduce")
        if self.mentions(r"\bDistributedDataParallel\b"):
            return "" if reduced else "ddp"
        return "hand" if reduced else ""

    @functools.cached_property
    def wrapped(self) -> set[str]:
        """The names that hold what DDP returned."""
        return {source.assigned(call) for source, call in self.calls(*WRAPPERS)} - {""}

    @functools.cached_property
    def shuffling(self) -> list[tuple[Source, cst.Call]]:
        """The DistributedSamplers that shuffle: evaluation has no use for one."""
        return [
            (source, call)
            for source, call in self.calls("DistributedSampler")
            if (given := argument(call, "shuffle")) is None or source.code(given.value) != "False"
        ]

    def backwards(self) -> Iterator[tuple[Source, cst.Call, cst.BaseExpression]]:
        """The calls of backward, with the loss that they are for."""
        for source, call in self.calls("backward"):
            yield from self._backward(source, call)
        for source in self.sources:
            for call in source.find(cst.Call):
                if source.name(call.func) == "" and isinstance(call.func, cst.Attribute):
                    yield from self._backward(source, call)

    def _backward(self, source: Source, call: cst.Call) -> Iterator[tuple[Source, cst.Call, cst.BaseExpression]]:
        function = call.func
        if isinstance(function, cst.Attribute) and function.attr.value == "backward":
            if not call.args:
                yield source, call, function.value
            elif source.code(function.value).endswith("accelerator"):
                yield source, call, call.args[0].value

    def changed(self, source: Source, edits: Edits) -> Program:
        """The program with edits of one of its files."""
        return dataclasses.replace(self, files={**self.files, source.path: source.edited(edits)})


def right() -> Iterator[Program]:
    """The programs and cases that hold no want."""
    alone = FIXTURES.glob("cases/*/*.py")
    folders = [path.parent for pattern in ("*/right/train.py", "cases/*/*/train.py") for path in FIXTURES.glob(pattern)]
    for path in sorted([*alone, *folders]):
        files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
        root = path if path.is_dir() else path.parent
        if not wants(root, files):
            texts = {file.relative_to(root).as_posix(): file.read_text("utf-8") for file in files}
            name = path.relative_to(FIXTURES).with_suffix("").as_posix().removeprefix("cases/").removesuffix("/right")
            yield Program(name, texts, "train.py" if path.is_dir() else path.name)
