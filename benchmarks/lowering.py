"""How long reading takes, beside libcst's own parser on the same files: `python benchmarks/lowering.py [FOLDER]`.

The files are those below FOLDER (default: the installed torch) that pass the prefilter. Each is parsed by libcst and
taken in by dpcheck in turn, so that a disturbance of the machine meets both. Times are those of the processor.

dpcheck switches the garbage collector off while it parses and lowers; libcst is therefore timed with and without it.
"""

from __future__ import annotations

import argparse
import functools
import gc
import importlib.util
import random
import site
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

import libcst

from dpcheck.check import FRAMEWORKS
from dpcheck.program.cache import Cache
from dpcheck.program.intake import take_in
from dpcheck.program.link import Program
from dpcheck.program.lower import lower
from dpcheck.program.relevance import is_relevant
from dpcheck.source import syntax, text
from dpcheck.source.files import Selection, discover

P = ParamSpec("P")
T = TypeVar("T")
LIMIT = 1.5


class Clock:
    """Adds up the seconds of what it times."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def time(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        gc.collect(0)
        started = time.process_time()
        result = function(*args, **kwargs)
        self.seconds += time.process_time() - started
        return result


def default_folder() -> Path:
    found = importlib.util.find_spec("torch")
    if found is not None and found.origin is not None:
        return Path(found.origin).parent
    return Path(site.getsitepackages()[0])


def relevant(folder: Path) -> tuple[list[Path], int]:
    """The files that pass the prefilter and that libcst can read, and how many there are in all."""
    found = discover([folder]).files
    kept = []
    for path in found:
        data = path.read_bytes()
        if is_relevant(data):
            try:
                libcst.parse_module(data)
            except Exception as error:
                print(f"  left out: {path}: {type(error).__name__}")
                continue
            kept.append(path)
    return kept, len(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", nargs="?", type=Path, default=default_folder())
    parser.add_argument("--files", type=int, default=200, help="measure so many of the files, drawn at random")
    options = parser.parse_args()
    files, total = relevant(options.folder)
    kept = len(files)
    files = sorted(random.Random(0).sample(files, min(kept, options.files)))
    lines = sum(path.read_bytes().count(b"\n") for path in files)
    print(f"{options.folder}: {total} files, {kept} pass the prefilter, measured: {len(files)}, {lines} lines")

    libcst_parse, uncollected, cold, alone = Clock(), Clock(), Clock(), Clock()
    for path in files:
        source = text.read(path)
        code = source.text
        libcst_parse.time(libcst.parse_module, code)
        with syntax.uncollected():
            uncollected.time(libcst.parse_module, code)
        cold.time(take_in, path, lower=True)
        tree = syntax.on_stack(source, functools.partial(syntax.parse, source))
        alone.time(syntax.on_stack, source, functools.partial(lower, tree))
        del tree

    with tempfile.TemporaryDirectory() as name:
        selection = Selection(tuple(files), roots=(options.folder,))
        first = Program(selection, cache=Cache(Path(name), options.folder), stub_folder=FRAMEWORKS)
        assert all(unit.module is not None for unit in first.units)
        first.save()
        del first
        gc.collect()
        warm = Clock()

        def again() -> int:
            cache = Cache(Path(name), options.folder)
            return sum(
                unit.module is not None for unit in Program(selection, cache=cache, stub_folder=FRAMEWORKS).units
            )

        assert warm.time(again) == len(files)

    ratio = cold.seconds / libcst_parse.seconds
    rows = [
        ("libcst.parse_module", libcst_parse.seconds, ""),
        (
            "  without the collector",
            uncollected.seconds,
            f"lowering takes {cold.seconds / uncollected.seconds:.2f} × this",
        ),
        ("lowering, cold", cold.seconds, f"{ratio:.2f} × libcst, at most {LIMIT}: {'yes' if ratio <= LIMIT else 'NO'}"),
        ("  of it lowering alone", alone.seconds, f"{alone.seconds / libcst_parse.seconds:.2f} × libcst"),
        ("lowering, warm", warm.seconds, f"{warm.seconds / libcst_parse.seconds:.3f} × libcst"),
    ]
    for label, seconds, remark in rows:
        print(f"{label:24s} {seconds:8.2f} s {lines / seconds / 1000:9.1f} kLOC/s  {remark}")


if __name__ == "__main__":
    main()
