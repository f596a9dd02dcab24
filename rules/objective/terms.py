"""What the rules of this group say of a loss term: its other ends, and how sure they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dpcheck.execution import TrainingRun
from dpcheck.execution.facts import Evidence, Term
from dpcheck.execution.run import Judged, Update
from dpcheck.findings.finding import Note
from dpcheck.rule import Confidence

from .groups import of_gradients, reduced_over


def confidence_of(term: Term) -> Confidence:
    """How sure it is that ranks hold different numbers of the targets that the term was divided by."""
    sure = any(evidence.sure for evidence in term.even.evidence) and not term.unsure
    return Confidence.HIGH if sure else Confidence.MEDIUM


def notes_of(run: TrainingRun, judged: Judged, evidence: Iterable[Evidence] = ()) -> tuple[Note, ...]:
    """The evidence, and the place where the ranks' gradients come together."""
    notes = [Note(run.span(each.site), each.text) for each in evidence]
    return tuple(dict.fromkeys((*notes, *reducers(run, judged.update))))


def reducers(run: TrainingRun, update: Update) -> Iterator[Note]:
    """The place where the ranks' gradients come together."""
    for event in update.wraps[:1]:
        yield Note(run.span(event.site), f"{event.how} averages the gradients over the ranks")
    for event in update.reductions[:1]:
        verb = "adds up" if event.op == "sum" else "averages"
        yield Note(run.span(event.site), f"this {verb} the gradients over the ranks")


def own_collective(run: TrainingRun, judged: Judged) -> bool:
    """Is the fault another rule's: a collective without gradient (DP306), a count over another group (DP308)?"""
    cut = judged.term.detached
    if cut is not None and not (cut.written and lacks_world_size(judged)):
        return True
    used = of_gradients(run, judged.update)
    counts = [s.reduced for s in judged.scalings if s.reduced is not None]
    return bool(counts) and (used is None or any(reduced_over(run, site) != used for site in counts))


def lacks_world_size(judged: Judged) -> bool:
    """Did a division take away a power of W that nothing gives back?"""
    return (
        judged.world is not None and judged.world < 0 and judged.counted and any(s.world < 0 for s in judged.scalings)
    )
