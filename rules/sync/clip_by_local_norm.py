"""DP403: gradients are clipped by a norm that is this rank's own."""

from __future__ import annotations

from collections.abc import Iterator

from dpcheck.execution import TrainingRun
from dpcheck.execution.arming import reduces_before
from dpcheck.execution.run import Event, Update, parts_of, unwrapped
from dpcheck.execution.values import text_of
from dpcheck.findings.finding import Finding, Note
from dpcheck.rule import Group, Rule, Severity

RULE = Rule(
    "DP403",
    "clip-by-local-norm",
    Group.SYNC,
    Severity.ERROR,
    "gradients clipped before they are reduced, or by the norm of one rank's shard",
)


def check(run: TrainingRun) -> Iterator[Finding]:
    if not run.complete:
        return
    seen: set[int] = set()
    for update in run.updates:
        for clip in run.of_kind("clip"):
            if not update.backwards[0].order < clip.order < update.step.order or id(clip) in seen:
                continue
            finding = _of_shards(run, clip) or _before_reduction(run, update, clip)
            if finding is not None:
                seen.add(id(clip))
                yield finding


def _of_shards(run: TrainingRun, clip: Event) -> Finding | None:
    """Each rank holds a part of every gradient, and the clip sees that part alone."""
    if clip.how != "norm":
        return None
    for wrap in run.of_kind("wrap"):
        # A wrapper that changes the module in place leaves parameters that know of their other shards.
        if wrap.shards and wrap.wrapper is not wrap.subject and wrap.order < clip.order and _touches(clip, wrap):
            return Finding(
                RULE,
                "this norm is taken over the rank's own shards of the gradients: every rank scales its part by "
                "another factor",
                run.span(clip.site),
                label="sees this rank's shards only",
                notes=(Note(run.span(wrap.site), f"{wrap.how} shards the parameters here"),),
                help="call model.clip_grad_norm_(max_norm), which adds up the norms of all ranks",
            )
    return None


def _before_reduction(run: TrainingRun, update: Update, clip: Event) -> Finding | None:
    """The gradients are still this rank's own, and are reduced only after the clip."""
    reduction = _reduced_after(run, update, clip)
    if reduction is None:
        return None
    return Finding(
        RULE,
        "the gradients are clipped before they are reduced over the ranks: what is averaged are gradients that every "
        "rank has scaled by its own norm",
        run.span(clip.site),
        label="clips this rank's own gradients",
        notes=(
            Note(run.span(update.backwards[-1].site), "the gradients of this backward"),
            Note(run.span(reduction.site), "are reduced here" if reduction.kind != "wrap" else "are reduced later"),
        ),
        help="reduce first: clip once, between the reduction and the step",
    )


def _reduced_after(run: TrainingRun, update: Update, clip: Event) -> Event | None:
    """What reduces the gradients of an update after the clip, and not before it."""
    by_hand = [event for event in update.reductions if _touches(clip, event)]
    if by_hand:
        averaged = any(wrap.averages for wrap in update.wraps)
        return by_hand[0] if all(event.order > clip.order for event in by_hand) and not averaged else None
    for wrap in update.wraps:
        if text_of(wrap.options.get("reduces_at")) == "step" and _touches(clip, wrap):
            waits = [e for e in run.of_kind("synchronize") if update.backwards[0].order < e.order < clip.order]
            return None if waits else wrap
    for backward in update.backwards:
        late = reduces_before(run, update, backward, clip)
        if late is not None:
            return late
    return None


def _touches(clip: Event, other: Event) -> bool:
    """Do both concern the same model?"""
    owners = other.subject if isinstance(other.subject, tuple) else (other.subject,)
    modules = [unwrapped(owner) for owner in owners]
    clipped = [unwrapped(owner) for owner in clip.subject]
    inside = {id(part) for module in modules for part in parts_of(module)}
    around = {id(part) for module in clipped for part in parts_of(module)}
    return any(id(module) in inside for module in clipped) or any(id(module) in around for module in modules)
