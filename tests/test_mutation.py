"""A sample of `python -m tests.mutation`, and that its operators make sense."""

from __future__ import annotations

import pytest

from dpcheck import registry
from tests.mutation.operator import Mutant, Operator, mutants
from tests.mutation.operators import OPERATORS
from tests.mutation.programs import Program, right
from tests.mutation.running import NAMES, reported

FLOOR = 0.85
EVERY = 9  # programs


@pytest.fixture(scope="module")
def programs() -> list[Program]:
    return list(right())


def test_most_defects_are_found(programs: list[Program]) -> None:
    sampled: dict[str, Mutant] = {}
    for program in programs[::EVERY]:
        for operator in OPERATORS:
            for mutant in mutants(operator, program):
                sampled.setdefault(operator.name, mutant)
    assert len(sampled) > 20
    originals = {mutant.original.name: mutant.original for mutant in sampled.values()}
    assert not {name: codes for name, program in originals.items() if (codes := reported(program))}
    missed = [
        f"{name}: {mutant.place}"
        for name, mutant in sampled.items()
        if reported(mutant.program).isdisjoint(NAMES[name].codes)
    ]
    assert len(missed) <= (1 - FLOOR) * len(sampled), missed


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.name)
def test_operator_names_rules(operator: Operator) -> None:
    assert NAMES[operator.name] is operator
    assert operator.codes
    assert all(registry.load().find(code) for code in operator.codes)


def test_a_mutant_differs_in_one_file_and_compiles(programs: list[Program]) -> None:
    for operator in OPERATORS:
        for mutant in mutants(operator, programs[0]):
            changed = [path for path, text in mutant.program.files.items() if text != mutant.original.files[path]]
            assert len(changed) == 1
            compile(mutant.program.files[changed[0]], changed[0], "exec")
