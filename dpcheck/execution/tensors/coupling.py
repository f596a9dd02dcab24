"""Where the examples of this rank's batch meet one another, so that a loss of them is no longer a sum over examples."""

from __future__ import annotations

from dpcheck.execution.facts import Coupling, Facts, Site, replace
from dpcheck.execution.tensors.operands import Operands, dims, keeps_rows
from dpcheck.execution.values import Const, Data, Value

_LOSES_AXIS = frozenset(
    "view reshape flatten ravel stack cat concat concatenate hstack vstack sum mean nansum nanmean max min amax amin"
    " argmax argmin logsumexp norm std var prod median gather expand repeat tile chunk split squeeze topk sort".split()
)
"""After these, which dimension counts the examples is not followed: it is taken to be the first one again."""


def met(result: Facts, x: Facts, y: Facts, op: str, site: Site) -> Facts:
    """The result, with a note where the examples of this rank's batch meet: each with each, or summed in a product."""
    if op == "@":
        meets = {x.axis, y.axis} == {0, 1}
    else:
        meets = x.axis != y.axis
    if meets and result.grad and result.coupled is None and _is_batch(x) and _is_batch(y):
        return replace(result, coupled=Coupling(site, site), axis=0)
    if op in ("+", "-") and result.coupled is not None and x.ndim == 0 and y.ndim == 0:
        return replace(result, coupled=result.coupled._replace(loss=site))
    return result


def turned(facts: Facts) -> int:
    """Which dimension counts the examples after the two dimensions of a matrix have changed places."""
    return 1 - facts.axis if facts.axis < 2 else 0


def noted(result: Data, given: Operands) -> Data:
    """The result of an operation, with a note where it mixes the examples of this rank's batch."""
    facts = result.facts
    if facts.axis and given.name in _LOSES_AXIS:
        result = Data(replace(facts, axis=0), result.site)
    operands = [arg.facts for arg in given.args if isinstance(arg, Data) and arg.facts.type == "tensor"]
    if not facts.grad or facts.coupled is not None or not operands or not all(_is_batch(o) for o in operands):
        return result
    if not _mixes(given, operands):
        return result
    return Data(replace(result.facts, coupled=Coupling(given.site, given.site)), result.site)


def _is_batch(facts: Facts) -> bool:
    """Has the tensor an entry for each example of this rank?"""
    made = facts.grad or bool(facts.sources)  # not a mere range as long as this rank's batch is wide
    return made and not facts.opaque and facts.type == "tensor" and facts.place.is_local and facts.place.spread


def _mixes(given: Operands, operands: list[Facts]) -> bool:
    if given.name in ("std", "var", "std_mean", "var_mean"):
        over = dims(given.dim())
        return not over or not keeps_rows(operands[0], over)
    if given.name == "einsum":
        return _sums_over_examples(given.args[0], len(operands))
    if given.name == "cdist":
        return len(operands) == 2 and all(o.ndim == 2 for o in operands)
    return given.name in ("cov", "corrcoef", "pdist")


def _sums_over_examples(equation: Value, count: int) -> bool:
    """Does an einsum pair the operands' first dimensions ("nd,md->nm"), or sum over them ("nc,nk->ck")?"""
    if not isinstance(equation, Const) or not isinstance(equation.value, str) or "." in equation.value:
        return False
    before, _, after = equation.value.replace(" ", "").partition("->")
    first = {operand[:1] for operand in before.split(",")}
    return before.count(",") + 1 == count > 1 and (len(first) > 1 or not first <= set(after))
