"""Mutants put on disk, and what `dpcheck check` and `dpcheck verify` say of them."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from dpcheck import registry
from dpcheck.check import check
from dpcheck.config import Settings
from tests.mutation.operator import Mutant, Operator, mutants
from tests.mutation.operators import OPERATORS
from tests.mutation.programs import Program

TIME_LIMIT = 300
NAMES = {operator.name: operator for operator in OPERATORS}


@dataclasses.dataclass(frozen=True, eq=False)
class Outcome:
    """The codes that check reports in a mutant, and not in the program that it was made from."""

    mutant: Mutant
    reported: frozenset[str]

    @property
    def operator(self) -> Operator:
        return NAMES[self.mutant.operator]

    @property
    def found(self) -> bool:
        return not self.reported.isdisjoint(self.operator.codes)


@contextlib.contextmanager
def laid_out(program: Program) -> Iterator[Path]:
    """A folder with the program's files."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path, text in program.files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, "utf-8")
        yield folder


def reported(program: Program) -> frozenset[str]:
    """The codes of what check finds in the program."""
    before = Path.cwd()
    with laid_out(program) as folder:
        os.chdir(folder)
        try:
            result = check([folder], Settings(root=folder, cache=False), registry.load())
        finally:
            os.chdir(before)
    assert not result.errors, result.errors[0].traceback
    return frozenset(finding.rule.code for finding in result.findings)


def counted(program: Program) -> dict[str, int]:
    """How many mutants each operator makes of a right program. One that check reports something in is not right."""
    if reported(program):
        return {}
    return {name: len(list(operator.apply(program))) for name, operator in NAMES.items()}


def outcomes(program: Program, chosen: Mapping[str, Collection[int]]) -> list[Outcome]:
    """What check says of mutants of a right program: of those with these numbers, operator by operator."""
    return [
        Outcome(mutant, reported(mutant.program))
        for name, numbers in chosen.items()
        for mutant in mutants(NAMES[name], program, numbers)
    ]


def verified(outcome: Outcome) -> int:
    """The exit code of verify on the mutant: 1 where it shows a defect."""
    program = outcome.mutant.program
    with laid_out(program) as folder:
        options = [*(outcome.operator.options or ()), "--timeout", str(TIME_LIMIT)]
        command = [sys.executable, "-m", "dpcheck", "verify", *options, program.entry]
        return subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode
