"""DP505: a collective of tensors whose shapes differ between the ranks."""

from __future__ import annotations

from collections.abc import Iterator

from dpcheck.execution import TrainingRun
from dpcheck.execution.facts import Even, Facts
from dpcheck.execution.run import Event
from dpcheck.findings.finding import Finding, Note
from dpcheck.rule import Confidence, Group, Rule, Severity

RULE = Rule(
    "DP505",
    "ragged-gather",
    Group.COLLECTIVES,
    Severity.ERROR,
    "a collective of tensors whose shape depends on the rank's own data",
)
_OF_ONE_SHAPE = ("all_gather", "all_reduce", "broadcast", "gather", "reduce", "reduce_scatter", "scatter")


def check(run: TrainingRun) -> Iterator[Finding]:
    if not run.complete:
        return
    seen = set()
    for event in run.of_kind("collective"):
        shape = _uneven_shape(event)
        if shape is None or event.site in seen:
            continue
        seen.add(event.site)
        yield Finding(
            RULE,
            f"this {event.name} needs tensors of one shape, and the ranks hand in different ones: it hangs, fails or "
            "mixes up the values",
            run.span(event.site),
            label="as long as this rank's own data",
            notes=tuple(dict.fromkeys(Note(run.span(why.site), why.text) for why in shape.evidence)),
            help="pad to the largest size (all_reduce with MAX) and cut afterwards, reduce sums and counts instead, or "
            "use all_gather_object",
            confidence=Confidence.HIGH if any(why.sure for why in shape.evidence) else Confidence.MEDIUM,
        )


def _uneven_shape(event: Event) -> Even | None:
    """Why the shape of what is handed in differs between ranks, if it is known to."""
    if event.name not in _OF_ONE_SHAPE or "said" in event.details:
        return None  # objects of any size, or a library that pads them
    shapes: tuple[Facts, ...] = event.shapes
    for facts in shapes:
        for even in (facts.lead, facts.rest):
            if facts.type == "tensor" and even.is_uneven:
                return even
    return None
