"""Which lines of the script a run is known to have come to: those at which something was recorded."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from dpcheck.findings.finding import Finding
from dpcheck.verify.judge.defect import line_of
from dpcheck.verify.recording import Place, Recording

Line = tuple[str, int]


@dataclasses.dataclass(frozen=True)
class Reached:
    """Lines by path as reports name it: at which every rank issued a collective, and at which any rank did anything."""

    issued: frozenset[Line]
    seen: frozenset[Line]

    def is_issued(self, each: Finding) -> bool:
        """Whether every rank issued a collective on the lines that the finding stands on."""
        return _touches(each, self.issued, notes=False)

    def is_seen(self, each: Finding) -> bool:
        """Whether some rank came to the finding, or to a place that it points at."""
        return _touches(each, self.seen, notes=True)


def reached(recordings: Sequence[Recording]) -> Reached:
    issued = [{line_of(each.place) for each in recording.collectives} for recording in recordings]
    seen = {line_of(place) for recording in recordings for place in _places(recording)}
    return Reached(frozenset(set.intersection(*issued) if issued else ()), frozenset(seen))


def _places(value: object) -> Iterator[Place]:
    if isinstance(value, Place):
        if value.path:
            yield value
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield from _places(getattr(value, name))
    elif isinstance(value, list):
        for each in value:
            yield from _places(each)


def _touches(each: Finding, lines: Iterable[Line], *, notes: bool) -> bool:
    spans = (each.span, *(note.span for note in each.notes if notes))
    return any(span.path == path and span.line <= line <= span.end_line for path, line in lines for span in spans)
