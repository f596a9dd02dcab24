"""What dpcheck believes a script does, in words: the answer to "why did it (not) report that?"."""

from __future__ import annotations

from collections.abc import Iterator

from dpcheck.execution.facts import Site, SourceKind
from dpcheck.execution.intrinsics import RandomState
from dpcheck.execution.loading import Loading, loadings
from dpcheck.execution.run import Event, Judged, TrainingRun, Update, accumulation, unwrapped
from dpcheck.execution.values import Const, Data, Value

_LABEL = 16
_MOST_UNKNOWNS = 8


def describe(run: TrainingRun) -> str:
    """The training run of one entry point, one aspect a line, each with the place it was read from."""
    lines = [f"{run.entry.path}"]
    for label, text, site in _aspects(run):
        place = f"  [{_place(run, site)}]" if site is not None else ""
        lines.append(f"  {label:{_LABEL}s}{text}{place}")
    return "\n".join(lines)


def _place(run: TrainingRun, site: Site) -> str:
    span = run.span(site)
    return f"{span.path}:{span.line}"


def _aspects(run: TrainingRun) -> Iterator[tuple[str, str, Site | None]]:
    yield from _group(run)
    yield from _weights(run)
    found = list(loadings(run))
    for loading in found:
        yield "loader", _loader(loading), loading.made.site
    for update in run.updates:
        yield from _update(run, update, found)
    if not run.updates:
        steps, backwards = len(run.of_kind("step")), len(run.of_kind("backward"))
        yield (
            "update",
            f"no optimizer step with a backward before it was seen ({steps} steps, {backwards} backwards)",
            None,
        )
    yield from _unseen(run)


def _group(run: TrainingRun) -> Iterator[tuple[str, str, Site | None]]:
    for event in _once(run.of_kind("launch")):
        yield "launch", "one process a rank is started here", event.site
    for event in _once(run.of_kind("group")):
        yield "group", "the process group is started here; W ranks, W > 1", event.site
    for event in _once(run.of_kind("seed")):
        if event.library in ("torch", "all"):
            yield "seed", f"torch's random state: {_state(event.state)}", event.site


def _weights(run: TrainingRun) -> Iterator[tuple[str, str, Site | None]]:
    for event in _once(run.of_kind("model")):
        if any(unwrapped(w.subject) is event.subject for w in run.of_kind("wrap")) or _reduced(run, event):
            drawn = f"initial weights {_state(event.state)}" if event.random else "no weights drawn at random"
            yield "model", f"{event.subject.cls.name}: {drawn}", event.site
    for event in _once(run.of_kind("wrap")):
        weights = {
            True: "copies rank 0's weights to all ranks",
            False: "copies no weights between the ranks",
            None: "may or may not copy weights between the ranks",
        }[event.broadcasts]
        yield "wrapper", f"{event.how}: {weights}, averages gradients over the ranks", event.site
    for event in _once(run.of_kind("broadcast weights")):
        yield "broadcast", "weights are made equal by a collective", event.site
    for event in _once(run.of_kind("reduce gradients")):
        yield "reduction", f"gradients are reduced by hand: {event.op}", event.site


def _reduced(run: TrainingRun, event: Event) -> bool:
    return any(unwrapped(o) is event.subject for e in run.of_kind("reduce gradients") for o in e.subject or ())


def _state(state: RandomState) -> str:
    if state.place.is_replicate:
        return "seeded alike on all ranks"
    if state.place.is_local:
        return "seeded differently on each rank" if state.seeded else "never seeded: different on each rank"
    return "perhaps seeded, not known how"


def _loader(loading: Loading) -> str:
    divided = {True: "each rank has data of its own", False: "every rank has all of the data", None: "division unknown"}
    samplers = ", ".join(sampler.cls.name for sampler in loading.samplers())
    by_sampler = not (isinstance(loading.made.batch_sampler, Const) and loading.made.batch_sampler.value is None)
    size = "the batch sampler's size" if by_sampler else _number(loading.made.batch_size)
    epoch = loading.shuffling_sampler()
    told = ""
    if epoch is not None:
        sampler = epoch.subject
        told = (
            ", told the epoch"
            if any(e.subject is sampler for e in loading.run.of_kind("set epoch"))
            else ", never told the epoch"
        )
    return f"batches of {size}, {samplers or 'no sampler given'}{told}: {divided[loading.is_divided]}"


def _update(run: TrainingRun, update: Update, found: list[Loading]) -> Iterator[tuple[str, str, Site | None]]:
    way = {None: "no reduction of gradients in sight", 0: "gradients averaged over the ranks"}
    yield "update", way.get(update.summed, "gradients summed over the ranks"), update.step.site
    for backward in update.backwards:
        if not backward.facts.terms:
            yield "  backward", "of a loss that carries no gradient as far as was seen", backward.site
    for judged in update.judged():
        yield "  loss term", _term(judged), judged.term.reduction or judged.backward.site
        for evidence in judged.term.even.evidence:
            yield "    because", evidence.text, evidence.site
    counts = accumulation(update) if update.accumulates else []
    sizes = [loading.made for loading in found if _feeds(loading, update)]
    microbatch = _number(sizes[0].batch_size) if sizes else "unknown"
    yield (
        "  global batch",
        f"microbatch {microbatch} × accumulation {' × '.join(map(_number, counts)) or 1} × ranks W",
        None,
    )


def _feeds(loading: Loading, update: Update) -> bool:
    return any(s.of is loading.loader for b in update.backwards for s in b.facts.of_kind(SourceKind.LOADER))


def _term(judged: Judged) -> str:
    place = judged.place
    if place.is_unknown or judged.world is None:
        return f"{place}: its way from the targets to one number was not followed"
    count = f" over a count that is {judged.term.even.state.value} between ranks" if place.is_ratio else ""
    scale = (
        "right"
        if judged.world == 0
        else f"W^{judged.world} times what is meant"
        if place.is_ratio or judged.counted
        else "not judged (no count divides it)"
    )
    return f"{place}{count}; scale after the reduction over the ranks: {scale}"


def _number(value: Value | None) -> str:
    if isinstance(value, Const):
        return str(value.value)
    if isinstance(value, Data) and isinstance(value.default, Const):
        return f"{value.default.value} (an option's default)"
    return "an unknown number"


def _unseen(run: TrainingRun) -> Iterator[tuple[str, str, Site | None]]:
    if not run.complete:
        yield "not seen", "the budget of steps ran out before the end: absence proves nothing in this run", None
    for reason, count in sorted(run.unknowns.items(), key=lambda item: -item[1])[:_MOST_UNKNOWNS]:
        yield "not seen", f"{reason} ({count} times)" if count > 1 else reason, None


def _once(events: list[Event]) -> list[Event]:
    return list({event.site: event for event in events}.values())
