"""Which elements are taken: by a mask, by an index, in sorted order."""

from __future__ import annotations

from dpcheck.execution.facts import (
    EVEN,
    EVEN_UNKNOWN,
    NOTHING,
    Evidence,
    Facts,
    Site,
    differences,
    replace,
    uneven,
    without_gradient,
)
from dpcheck.execution.placement import SHARD
from dpcheck.execution.tensors.combining import elementwise
from dpcheck.execution.tensors.operands import Operands, Operation
from dpcheck.execution.values import Sequence, Value


def selected(facts: Facts, mask: Facts, site: Site) -> Facts:
    """The facts of `x[mask]`: as many rows as the mask has ones."""
    lead = mask.total
    if lead.is_uneven:
        lead = uneven(*lead.evidence, Evidence(site, "only the selected elements are kept"))
    return replace(
        facts,
        place=SHARD if mask.place.is_local and facts.place.is_replicate else facts.place,
        lead=lead,
        rest=EVEN,
        ndim=None,
        parts=None,
        ignored=(),
        mask=False,
        sources=facts.sources | mask.sources,
        differs=differences((facts, mask)),
    )


def found_places(given: Operands, each_dimension: bool) -> Value:
    """Where the ones of a mask are: in one tensor, or in a tuple with a tensor for each dimension."""
    facts = given.facts
    found = replace(
        without_gradient(facts),
        lead=facts.total,
        rest=EVEN,
        mask=False,
        parts=None,
        ndim=1 if each_dimension else None,
    )
    return Sequence(None, "tuple", given.result(found)) if each_dimension else given.result(found)


def _nonzero(given: Operands) -> Value:
    return found_places(given, each_dimension="as_tuple" in given.kwargs)


def _masked_select(given: Operands) -> Value:
    mask = given.at(1, "mask")
    by = given.facts_of(mask) if mask is not None else NOTHING
    return given.result(selected(given.facts, by, given.site))


def _argsort(given: Operands) -> Value:
    facts = given.facts
    return given.result(
        replace(
            facts,
            permutation=True,
            grad=False,
            terms=(),
            total=EVEN if facts.elements.is_even else facts.elements,
            clean=True,
            parts=None,
            mask=False,
        )
    )


def _sort(given: Operands) -> Value:
    """sort, topk: the values and where they stood."""
    values = given.result(replace(given.facts, parts=None))
    return Sequence([values, _argsort(given)], "tuple")


def _gather(given: Operands) -> Value:
    """`gather`: a permuted tensor has the sum it had before."""
    facts = given.facts
    index = given.at(2, "index")
    by = given.facts_of(index) if index is not None else NOTHING
    return given.result(
        replace(
            elementwise([facts, by]),
            lead=by.lead,
            rest=by.rest,
            ndim=by.ndim,
            total=facts.total if by.permutation or facts.total.is_uneven else EVEN_UNKNOWN,
            ignored=facts.ignored,
            grad=facts.grad,
            terms=facts.terms if facts.grad else (),
            type="tensor",
            mask=facts.mask,
        )
    )


def _one_hot(given: Operands) -> Value:
    """As many ones as there are indices."""
    facts = given.facts
    return given.result(replace(facts, total=facts.elements, clean=True, ignored=(), parts=None, mask=False))


def _by_content(given: Operands) -> Value:
    """bincount, unique: as long as what is in the tensor says, unless a least length covers it."""
    facts = given.facts
    if given.name == "bincount" and given.at(2, "minlength") is not None:
        length = EVEN_UNKNOWN
    elif facts.differs:
        length = uneven(Evidence(given.site, "as long as this rank's own values say", sure=False))
    else:
        length = EVEN_UNKNOWN
    made = replace(elementwise([facts]), type="tensor", ndim=1, lead=length, rest=EVEN, total=EVEN_UNKNOWN)
    return given.result(without_gradient(made))


OPERATIONS: dict[str, Operation] = {
    "masked_select": _masked_select,
    "nonzero": _nonzero,
    "argsort": _argsort,
    **dict.fromkeys(["sort", "topk"], _sort),
    **dict.fromkeys(["gather", "take_along_dim"], _gather),
    "one_hot": _one_hot,
    **dict.fromkeys(["bincount", "unique"], _by_content),
}
