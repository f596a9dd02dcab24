"""DP105: the optimizer holds parameters that are no longer those of the model."""

from __future__ import annotations

from collections.abc import Iterator

from dpcheck.execution import TrainingRun, changes
from dpcheck.execution.run import Event, escaped, parts_of, unwrapped
from dpcheck.execution.values import Instance, is_false
from dpcheck.findings.finding import Finding, Note
from dpcheck.rule import Group, Rule, Severity

RULE = Rule(
    "DP105",
    "stale-optimizer-parameters",
    Group.WEIGHTS,
    Severity.ERROR,
    "an optimizer built from parameters that the model no longer has",
)


def check(run: TrainingRun) -> Iterator[Finding]:
    if not run.complete:
        return
    for made in run.of_kind("optimizer"):
        replacing = _replacing(run, made)
        if replacing is None or not _is_used(run, made, replacing):
            continue
        what = "puts new parameters in their place" if replacing.kind == "wrap" else "puts a new layer in its place"
        yield Finding(
            RULE,
            "this optimizer is built from parameters that are replaced afterwards: its steps no longer reach the model",
            run.span(made.site),
            label="holds the old parameters",
            notes=(Note(run.span(replacing.site), what),),
            help="build the optimizer after that",
        )


def _replacing(run: TrainingRun, made: Event) -> Event | None:
    """What replaces parameters that the optimizer holds, without its knowledge."""
    owners = [unwrapped(owner) for owner in made.owners]
    if any(not isinstance(owner, Instance) or escaped(owner) for owner in owners):
        return None
    held = {id(part) for owner in owners for part in parts_of(owner)}
    for wrap in run.of_kind("wrap"):
        # Sharding puts flat or distributed parameters in the place of the module's own.
        renewed = wrap.wrapper is wrap.subject or is_false(wrap.options.get("use_orig_params"))
        if wrap.order > made.order and wrap.shards and renewed and id(unwrapped(wrap.subject)) in held:
            return wrap
    for event in run.of_kind("set module attribute"):
        if event.order > made.order and id(event.subject) in held and changes.brings_parameters(run, made, event):
            known = [e for e in run.of_kind("wrap") if e.order < event.order]
            # After the wrap it is the wrapper, too, that does not know the new layer: parameters-changed-after-wrap.
            return None if any(event.subject is part for wrap in known for part in wrap.parts) else event
    return None


def _is_used(run: TrainingRun, made: Event, replacing: Event) -> bool:
    """Does the optimizer step after that, without having been given the new parameters?"""
    again = [e for e in run.of_kind("optimizer") if e.subject is made.subject and e.order > replacing.order]
    steps = [update.step for update in run.updates if update.step.subject is made.subject]
    return not again and any(step.kind == "step" and step.order > replacing.order for step in steps)
