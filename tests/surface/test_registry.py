"""Which rules are installed and in force."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpcheck import registry
from dpcheck.registry import Registry, RegistryError, Selectors
from tests.surface.conftest import BAD, FINE, ODD

EVERYTHING = {"DP900", "DP901", "DP902", "XX301", "XX302", "XX401"}
DEFAULT = EVERYTHING - {"XX401"}


def test_built_in_rules_are_installed() -> None:
    installed = registry.load()
    assert {"DP900", "DP901", "DP902"} <= {entry.rule.code for entry in installed.entries}
    assert all(entry.page.is_file() for entry in installed.entries)
    assert all(entry.check is not None for entry in installed.entries if entry.rule.code < "DP900")


def test_find_by_code_and_name(rules: Registry) -> None:
    assert rules.find("XX301") is rules.find("bad-word")
    assert rules.find("bad") is None


def test_two_rules_of_one_name_are_refused() -> None:
    entry = registry.Entry(BAD, None, Path())
    with pytest.raises(RegistryError, match="XX301"):
        Registry([entry, entry])


@pytest.mark.parametrize(
    ("layers", "pedantic", "in_force"),
    [
        ([], False, DEFAULT),
        ([], True, EVERYTHING),
        ([Selectors(("XX3",))], False, {"XX301", "XX302", "DP900"}),
        ([Selectors(("bad-word",))], False, {"XX301", "DP900"}),
        ([Selectors(("ALL",))], False, DEFAULT),
        ([Selectors(("ALL",))], True, EVERYTHING),
        ([Selectors(("XX4",))], False, {"DP900"}),  # a prefix does not name a pedantic rule
        ([Selectors(("XX401",))], False, {"XX401", "DP900"}),
        ([Selectors(extend_select=("fine-print",))], False, EVERYTHING),
        ([Selectors(ignore=("XX3",))], False, DEFAULT - {"XX301", "XX302"}),
        ([Selectors(("XX301",), ignore=("XX3",))], False, {"XX301", "DP900"}),
        ([Selectors(("XX3",), ignore=("XX301",))], False, {"XX302", "DP900"}),
        ([Selectors(("XX301",), ignore=("bad-word",))], False, {"DP900"}),
        ([Selectors(ignore=("DP900",))], False, DEFAULT - {"DP900"}),
        # What comes later overrides what came before.
        ([Selectors(ignore=("XX301",)), Selectors(("XX301",))], False, {"XX301", "DP900"}),
        ([Selectors(ignore=("XX301",)), Selectors(extend_select=("XX301",))], False, DEFAULT),
        ([Selectors(("XX301",)), Selectors(ignore=("ALL",))], False, set()),
    ],
)
def test_choose(rules: Registry, layers: list[Selectors], pedantic: bool, in_force: set[str]) -> None:
    assert rules.choose(layers, pedantic=pedantic) == in_force


def test_an_unknown_selector_is_an_error_that_says_where(rules: Registry) -> None:
    with pytest.raises(RegistryError, match=r"^dpcheck.toml: there is no rule 'bad-wrd', did you mean 'bad-word'\?$"):
        rules.choose([Selectors(ignore=("bad-wrd",), origin="dpcheck.toml")])


def test_a_misspelling_in_another_case_is_recognised(rules: Registry) -> None:
    assert rules.closest("xx301") == BAD.code
    assert rules.closest("Odd_Word") == ODD.name
    assert rules.closest("finer-print") == FINE.name
    assert rules.closest("something else") is None
