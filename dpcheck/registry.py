"""The rules that are installed, and which of them a run uses.

A package brings rules by an entry point of the group `dpcheck.rules` that names a tuple of its rule modules. A rule
module holds `RULE` and `check`, and its page lies beside it: the same name, ending in `.md`. The built-in rules come
the same way, so dpcheck must be installed (`pip install -e .` does for a source tree).
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import importlib
import importlib.metadata
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from dpcheck.rule import Group, Rule

if TYPE_CHECKING:
    from dpcheck.execution import TrainingRun
    from dpcheck.findings.finding import Finding

UNREADABLE_FILE = "DP900"
UNUSED_SUPPRESSION = "DP901"
UNKNOWN_RULE = "DP902"


class RegistryError(Exception):
    """A rule package that cannot be loaded, or a selector that matches no rule."""


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """An installed rule. `check` is None for the hygiene rules, which `dpcheck.check` reports itself."""

    rule: Rule
    check: Callable[[TrainingRun], Iterator[Finding]] | None
    page: pathlib.Path


@dataclasses.dataclass(frozen=True, slots=True)
class Selectors:
    """What one source (a configuration file, the command line) says about which rules are in force.

    A selector is a code, a name, the beginning of a code (`DP3`) or `ALL`. `select` None leaves the choice as it is.
    `places` say of selectors where in `origin` they stand.
    """

    select: tuple[str, ...] | None = None
    extend_select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    origin: str = "command line"
    places: Mapping[str, str] = dataclasses.field(default_factory=dict, compare=False)


class Registry:
    """The installed rules, in the order of their codes."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self.entries = tuple(sorted(entries, key=lambda entry: entry.rule.code))
        self._by_label: dict[str, Entry] = {}
        for entry in self.entries:
            for label in (entry.rule.code, entry.rule.name):
                if label in self._by_label:
                    raise RegistryError(f"two rules are called {label}")
                self._by_label[label] = entry

    def find(self, label: str) -> Entry | None:
        """The rule with this code or name."""
        return self._by_label.get(label)

    def rule(self, code: str) -> Rule:
        return self._by_label[code].rule

    def closest(self, label: str) -> str | None:
        """A code or name that `label` may be a misspelling of."""
        folded = {known.casefold(): known for known in self._by_label}
        found = difflib.get_close_matches(label.casefold(), folded, n=1)
        return folded[found[0]] if found else None

    def choose(self, layers: Sequence[Selectors], *, pedantic: bool = False) -> frozenset[str]:
        """The codes of the rules in force.

        A later layer overrides an earlier one. Within a layer the more specific selector wins, and `ignore` on a tie.
        Pedantic rules need `pedantic` or a selector that is their full code or name. An unreadable file is reported
        unless `ignore` says otherwise: to select some other rule is not to say that files may go unread.
        """
        for layer in layers:
            self.expand((*(layer.select or ()), *layer.extend_select, *layer.ignore), layer.origin, layer.places)
        return frozenset(entry.rule.code for entry in self.entries if _in_force(entry.rule, layers, pedantic))

    def expand(self, selectors: Iterable[str], origin: str, places: Mapping[str, str] | None = None) -> frozenset[str]:
        """The codes that the selectors stand for. Raises `RegistryError` for one without a rule, naming its place."""
        codes: set[str] = set()
        for selector in selectors:
            matched = {entry.rule.code for entry in self.entries if _specificity(selector, entry.rule) is not None}
            if not matched:
                raise RegistryError(f"{(places or {}).get(selector, origin)}: {self.unknown(selector)}")
            codes |= matched
        return frozenset(codes)

    def unknown(self, label: str) -> str:
        """The complaint about a label that no rule has."""
        closest = self.closest(label)
        return f"there is no rule {label!r}" + (f", did you mean {closest!r}?" if closest else "")


_EXACT = 100


def _specificity(selector: str, rule: Rule) -> int | None:
    """How closely the selector describes the rule: None when it does not."""
    if selector in (rule.code, rule.name):
        return _EXACT
    if selector == "ALL":
        return 0
    return len(selector) if selector.isupper() and rule.code.startswith(selector) else None


def _closest_match(selectors: Iterable[str], rule: Rule) -> int:
    matches = (_specificity(selector, rule) for selector in selectors)
    return max((match for match in matches if match is not None), default=-1)


def _in_force(rule: Rule, layers: Sequence[Selectors], pedantic: bool) -> bool:
    in_force = pedantic or not rule.pedantic
    for layer in layers:
        wanted = _closest_match((*(layer.select or ()), *layer.extend_select), rule)
        if rule.pedantic and not pedantic and wanted != _EXACT:
            wanted = -1
        unwanted = _closest_match(layer.ignore, rule)
        if wanted > unwanted:
            in_force = True
        elif unwanted >= 0 or (layer.select is not None and rule.code != UNREADABLE_FILE):
            in_force = False
    return in_force


@functools.cache
def load() -> Registry:
    """The registry of this environment. Raises `RegistryError`."""
    entries: list[Entry] = []
    points = importlib.metadata.entry_points(group="dpcheck.rules")
    for point in sorted(points, key=lambda point: point.name):
        try:
            entries += [_entry(module, point.module) for module in point.load()]
        except RegistryError:
            raise
        except Exception as error:
            raise RegistryError(f"the rules of {point.value} cannot be loaded: {error!r}") from error
    if not any(entry.rule.code == UNREADABLE_FILE for entry in entries):
        raise RegistryError("dpcheck's own rules are not installed: run pip install -e . in its source tree")
    return Registry(entries)


def _entry(name: str, package: str) -> Entry:
    module = importlib.import_module(name, package)
    rule, check = module.RULE, getattr(module, "check", None)
    if check is None and rule.group is not Group.HYGIENE:
        raise RegistryError(f"{module.__name__} has no check")
    assert module.__file__ is not None
    return Entry(rule, check, pathlib.Path(module.__file__).with_suffix(".md"))
