"""What the default collation makes of a data set's items: as many rows on every rank, or not known."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.execution.programs import UNKNOWN, plain
from tests.execution.scripts import TORCH, WRAPPED, run, term

HEAD = f"""{TORCH}
import collections, dataclasses, typing

class Pair(typing.NamedTuple):
    x: torch.Tensor
    y: int
    name: str = "none"

Other = collections.namedtuple("Other", "x y")

@dataclasses.dataclass
class Example:
    x: torch.Tensor
    y: int

class Rows(Dataset):
    def __init__(self, make):
        self.make = make
        self.rows = torch.randn(32, 4)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.make(self.rows[i], 1)
{WRAPPED}
"""


@pytest.mark.parametrize("make", ["Pair", "Other", "lambda x, y: Pair(x=x, y=y, name='a')"])
@pytest.mark.parametrize("parts", ["x, y = batch.x, batch.y", "x, y = batch[0], batch[1]"])
def test_a_named_tuple_is_collated_field_by_field(make: str, parts: str, tmp_path: Path) -> None:
    text = f"""
        for batch in DataLoader(Rows({make}), batch_size=4, drop_last=True):
            {parts}
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
        """
    only = term(run(tmp_path, text, before=HEAD))
    assert only.place.is_ratio
    assert only.even.is_even


def test_its_parts_are_unpacked_and_texts_are_left(tmp_path: Path) -> None:
    text = """
        for x, y, name in DataLoader(Rows(Pair), batch_size=4):
            DataLoader([], batch_size=(x.shape[1], name, isinstance(name, list)))
        """
    (_, shown) = run(tmp_path, text, before=HEAD).of_kind("loader")
    assert plain(shown.batch_size)[1:] == (["none", ...], True)


def test_a_data_class_is_not_collated(tmp_path: Path) -> None:
    text = """
        for batch in DataLoader(Rows(Example), batch_size=4):
            DataLoader([], batch_size=batch)
        """
    (_, shown) = run(tmp_path, text, before=HEAD).of_kind("loader")
    assert plain(shown.batch_size) == UNKNOWN
