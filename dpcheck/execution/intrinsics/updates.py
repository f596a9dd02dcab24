"""Updates: optimizers and their steps, what is done to gradients between backward and step, and events of any kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpcheck.execution import expressions, reports, weights
from dpcheck.execution.facts import NOTHING, Site, replace
from dpcheck.execution.intrinsics.arguments import Arguments, Table
from dpcheck.execution.loading import leaves
from dpcheck.execution.values import NONE, Const, Data, Value, is_true, text_of

if TYPE_CHECKING:
    from dpcheck.execution.interpreter import Interpreter


def _record(it: Interpreter, a: Arguments, site: Site) -> Value:
    """Note an event of any kind: `record("loader", self, sampler=sampler)`."""
    kind, subject = text_of(a["kind"]), a.get("subject")
    details: dict[str, Any] = {k: v for k, v in a.items() if k not in ("kind", "subject")}
    if kind == "collective":
        details |= {"name": text_of(details.get("name")), "shapes": tuple(leaves(subject))}
        if "said" in details:
            details["said"] = text_of(details["said"])
    elif kind == "scheduler step":
        details["facts"] = tuple(leaves(details.get("metrics")))
    it.record(kind, site, subject, **details)
    return NONE


def _report(it: Interpreter, a: Arguments, site: Site) -> Value:
    """Somebody is told these values: printed, logged or plotted."""
    reports.told(it, list(a.values()), site)
    return NONE


def _optimizer_made(it: Interpreter, a: Arguments, site: Site) -> Value:
    owners = weights.owners_of(it, a["params"])
    it.record("optimizer", site, a["optimizer"], owners=owners)
    return NONE


def _optimizer_step(it: Interpreter, a: Arguments, site: Site) -> Value:
    it.record("step", site, a["optimizer"])
    return NONE


def _reduce_gradients(it: Interpreter, a: Arguments, site: Site) -> Value:
    owners = weights.owners_of(it, a["parameters"])
    it.record("reduce gradients", site, owners, op=text_of(a.get("op", Const("mean"))), group=a.get("group", NONE))
    return NONE


def _scale_gradients(it: Interpreter, a: Arguments, site: Site) -> Value:
    owners = weights.owners_of(it, a["parameters"])
    by = expressions.facts_of(it, a["factor"])
    it.record("scale gradients", site, owners, by=by, divides=is_true(a.get("divides")), value=a["factor"])
    return NONE


def _clip(it: Interpreter, a: Arguments, site: Site) -> Value:
    it.record("clip", site, weights.owners_of(it, a["parameters"]), how=text_of(a.get("how")))
    return Data(replace(NOTHING, type="tensor", ndim=0), site)


INTRINSICS: Table = {
    "reduce_gradients": (_reduce_gradients, ("parameters", "op")),
    "scale_gradients": (_scale_gradients, ("parameters", "factor", "divides")),
    "clip": (_clip, ("parameters", "how")),
    "record": (_record, ("kind", "subject")),
    "report": (_report, tuple("abcdefgh")),
    "optimizer_made": (_optimizer_made, ("optimizer", "params")),
    "optimizer_step": (_optimizer_step, ("optimizer",)),
}
