"""The page on stubs agrees with the code."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from pathlib import Path

from dpcheck.check import FRAMEWORKS
from dpcheck.execution.entry import Execution
from dpcheck.execution.intrinsics import INTRINSICS
from dpcheck.program.link import Program
from dpcheck.source.files import Selection
from tests.execution.scripts import counts_steps, divisor, lines, one, sharded_by, update

PAGE = (Path(__file__).parents[2] / "docs" / "stubs.md").read_text("utf-8")


def test_every_intrinsic_is_described() -> None:
    described = re.findall(r"^\| `(\w+)\(", PAGE, re.MULTILINE)
    assert [name for name, times in Counter(described).items() if times > 1] == []
    assert set(described) == set(INTRINSICS)


def test_the_stub_on_the_page_does_what_the_page_says(tmp_path: Path) -> None:
    blocks = dict(re.findall(r'^```python title="([\w.]+)"\n(.*?)^```', PAGE, re.MULTILINE | re.DOTALL))
    stubs = shutil.copytree(FRAMEWORKS, tmp_path / "stubs")
    (stubs / "acme.py").write_text(blocks["acme.py"], "utf-8")
    entry = tmp_path / "project" / "train.py"
    entry.parent.mkdir()
    entry.write_text(blocks["train.py"], "utf-8")
    program = Program(Selection((entry,), roots=(entry.parent,)), stub_folder=stubs)
    (found,) = Execution(program).script(program.unit(entry))
    only = update(found)
    assert [one(found, kind).kind for kind in ("group", "wrap", "loader", "shard", "backward", "step")]
    assert sharded_by(found) == ["acme"]
    assert counts_steps(only.step)
    assert only.accumulates
    assert divisor(found) in lines(found, "accumulate=4")
