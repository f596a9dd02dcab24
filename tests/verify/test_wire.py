"""What travels between the processes, whatever a script puts into it."""

from __future__ import annotations

import json
import math
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dpcheck.verify import recording, wire
from dpcheck.verify.recording import Failure, Loader, Place, Recording, Window
from dpcheck.verify.report import render
from dpcheck.verify.result import Report


def test_names_that_are_no_text_come_back(tmp_path: Path) -> None:
    made = Recording("rank", 0, 2, "float64", "raised", failure=Failure("OSError", "\udcff", "", Place("d\udcfe", 3)))
    made.loaders = [Loader(Place(), "Texts", "", False, 3, 1, 1, ended={0: 2})]
    recording.write(made, tmp_path)
    assert recording.read(tmp_path) == made


def test_numbers_that_are_not_finite_come_back_as_none(tmp_path: Path) -> None:
    window = Window(0, 0, "SGD", Place(), [], [], {}, forwards=1, backwards=1)
    window.first_input, window.rates = [1.5, math.nan, math.inf], [-math.inf]
    recording.write(Recording("rank", 0, 2, "float64", "ended", windows=[window]), tmp_path)
    read = recording.read(tmp_path)
    assert read is not None
    assert (read.windows[0].first_input, read.windows[0].rates) == ([1.5, None, None], [None])


def test_every_number_of_a_script_may_be_missing() -> None:
    """JSON knows no NaN: a field that a script can make infinite must take null."""
    found = dict(_numbers(Recording, "recording"))
    assert {name for name, optional in found.items() if not optional} == {"recording.seconds"}


def _numbers(kind: Any, name: str) -> Iterator[tuple[str, bool]]:
    """The fields that hold floats, by name, and whether they hold None as well."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        for field, hint in typing.get_type_hints(kind).items():
            yield from _numbers(hint, f"{name}.{field}")
    elif float in (parts := typing.get_args(kind)) or kind is float:
        yield name, type(None) in parts
    else:
        for part in parts:
            yield from _numbers(part, name)


@pytest.mark.parametrize("data", [b"", b"{", b'{"version": "one"}', b'{"version": "\\udcff"}'])
def test_what_is_none_of_ours_is_refused(data: bytes) -> None:
    with pytest.raises((msgspec.MsgspecError, ValueError)):
        wire.decode(data, Recording)


def test_a_report_is_utf8_whatever_the_script_is_called() -> None:
    report = Report(
        verdict="script-error", reason="no file \udcff 🙂", ranks=2, steps=0, dtype="float64", seconds=math.nan
    )
    told = json.loads(render("json", report, lambda path: []).encode())
    assert (told["reason"], told["seconds"]) == ("no file � 🙂", None)
