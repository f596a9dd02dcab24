"""What dpcheck believes a script does, in words: the answer to "why did it (not) report that?"."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from dpcheck.execution.facts import Site, SourceKind, State
from dpcheck.execution.loading import Loading, loadings
from dpcheck.execution.placement import Placement
from dpcheck.execution.run import Event, Judged, TrainingRun, Update, accumulation, unwrapped
from dpcheck.execution.values import Const, Data, Value, options
from dpcheck.program import records

if TYPE_CHECKING:
    from dpcheck.execution.randomness import RandomState

_LABEL = 16
_MOST_UNKNOWNS = 8
_LONGEST = 40
_EVENNESS = {
    State.EVEN: "as many on every rank",
    State.UNEVEN: "of which the ranks hold different numbers",
    State.UNKNOWN: "not known to be as many on every rank",
}

Aspect: TypeAlias = tuple[str, str, Site | None]
"""A label, what is said under it, and the place that it was read from."""


class _Loader(NamedTuple):
    """A loader that feeds an update, how it was made, and what is said of it."""

    loader: Any
    made: Event
    said: str


def describe(run: TrainingRun) -> str:
    """The training run of one entry point, one aspect a line, each with the place it was read from."""
    return "\n".join(described(run))


def described(run: TrainingRun) -> list[str]:
    """The lines of the description.

    What happens on several paths through the script is said once where it is the same on all of them.
    """
    lines = [_title(run)]
    for block in dict.fromkeys(_blocks(run)):
        for label, text, site in block:
            place = f"  [{_place(run, site)}]" if site is not None else ""
            lines.append(f"  {label:{_LABEL}s}{text}{place}")
    return lines


def _title(run: TrainingRun) -> str:
    """The script, or the function that was executed by itself."""
    module = run.program.unit(pathlib.Path(run.entry.path)).module
    if module is None or not run.entry.at:
        return run.entry.path
    name = _function(run, module)
    how = "called by an installed script" if run.starts_group else "called with unknown arguments"
    return f"{_place(run, run.entry)}{f' {name}' if name else ''}, {how}"


def _function(run: TrainingRun, module: records.Module) -> str | None:
    for statement in module.body:
        members = statement.body if isinstance(statement, records.Class) else (statement,)
        for member in members:
            if isinstance(member, records.Function) and member.at == run.entry.at:
                return f"{statement.name}.{member.name}" if isinstance(statement, records.Class) else member.name
    return None


def _place(run: TrainingRun, site: Site) -> str:
    span = run.span(site)
    return f"{span.path}:{span.line}"


def _blocks(run: TrainingRun) -> Iterator[tuple[Aspect, ...]]:
    """Aspects that belong together and are said together."""
    if not run.is_data_parallel:
        yield (("group", "nothing that starts or joins ranks was seen as far as the run was followed", None),)
    yield from _single(_group(run))
    yield from _single(_weights(run))
    found = list(_loaders(run))
    for loader in found:
        yield (("loader", loader.said, loader.made.site),)
    for update in run.updates:
        yield tuple(_update(run, update, found))
    if not run.updates:
        steps, backwards = len(run.of_kind("step")), len(run.of_kind("backward"))
        counts = f"(steps: {steps}, backwards: {backwards})"
        yield (("update", f"no optimizer step with a backward before it was seen {counts}", None),)
    yield from _single(_unseen(run))


def _single(aspects: Iterable[Aspect]) -> Iterator[tuple[Aspect, ...]]:
    return ((aspect,) for aspect in aspects)


def _group(run: TrainingRun) -> Iterator[Aspect]:
    for event in run.of_kind("launch"):
        yield "launch", "one process a rank is started here", event.site
    for event in run.of_kind("group"):
        yield "group", "the process group is started here; W ranks, W > 1", event.site
    for event in run.of_kind("seed"):
        if event.library in ("torch", "all"):
            yield "seed", f"torch's random state: {_state(event.state)}", event.site


def _weights(run: TrainingRun) -> Iterator[Aspect]:
    for event in run.of_kind("model"):
        if any(unwrapped(w.subject) is event.subject for w in run.of_kind("wrap")) or _reduced(run, event):
            drawn = f"initial weights {_state(event.state)}" if event.random else "no weights drawn at random"
            yield "model", f"{event.subject.cls.name.lstrip('_')}: {drawn}", event.site
    for event in run.of_kind("wrap"):
        weights = {
            True: "copies rank 0's weights to all ranks",
            False: "copies no weights between the ranks",
            None: "may or may not copy weights between the ranks",
        }[event.broadcasts]
        gradients = "averages gradients over the ranks" if event.averages else "does not average gradients"
        yield "wrapper", f"{event.how}: {weights}, {gradients}", event.site
    for event in run.of_kind("broadcast weights"):
        yield "broadcast", "weights are made equal by a collective", event.site
    for event in run.of_kind("reduce gradients"):
        yield "reduction", f"gradients are reduced by hand: {event.op}", event.site


def _reduced(run: TrainingRun, event: Event) -> bool:
    return any(unwrapped(o) is event.subject for e in run.of_kind("reduce gradients") for o in e.subject or ())


def _state(state: RandomState) -> str:
    if state.place.is_replicate:
        return "seeded alike on all ranks"
    if state.place.is_local:
        return "seeded differently on each rank" if state.seeded else "never seeded: different on each rank"
    return "perhaps seeded, not known how"


def _loaders(run: TrainingRun) -> Iterator[_Loader]:
    for loading in loadings(run):
        yield _Loader(loading.loader, loading.made, _loading(loading))
    made = {id(event.subject): event for event in run.of_kind("loader")}
    for event in run.of_kind("shard"):
        original = made.get(id(event.details.get("loader")))
        if original is not None and any(_feeds(event.subject, update) for update in run.updates):
            size, by = _size(original, "unknown size"), _number(event.by)
            said = f"batches of {size}, shared out by {by}: each rank has data of its own"
            yield _Loader(event.subject, original, said)


def _loading(loading: Loading) -> str:
    divided = {True: "each rank has data of its own", False: "every rank has all of the data", None: "division unknown"}
    samplers = ", ".join(dict.fromkeys(sampler.cls.name.lstrip("_") for sampler in loading.samplers()))
    epoch = loading.shuffling_sampler()
    told = ""
    if epoch is not None:
        sampler = epoch.subject
        told = (
            ", told the epoch"
            if any(e.subject is sampler for e in loading.run.of_kind("set epoch"))
            else ", never told the epoch"
        )
    size = _size(loading.made, "unknown size")
    return f"batches of {size}, {samplers or 'no sampler given'}{told}: {divided[loading.is_divided]}"


def _size(made: Event, unknown: str = "unknown") -> str:
    """How many examples a batch holds. With a batch sampler, the loader's own number says nothing."""
    sampler = made.batch_sampler
    if isinstance(sampler, Const) and sampler.value is None:
        return _number(made.batch_size, unknown)
    sizes = [_number(getattr(option, "attrs", {}).get("batch_size"), unknown) for option in options(sampler)]
    return " or ".join(dict.fromkeys(sizes)) or unknown


def _update(run: TrainingRun, update: Update, loaders: list[_Loader]) -> Iterator[Aspect]:
    yield "update", _reduction(run, update), update.step.site
    for backward in dict.fromkeys(backward.site for backward in update.backwards if not backward.facts.terms):
        yield "  backward", "of a loss that carries no gradient as far as was seen", backward
    for term in dict.fromkeys(tuple(_loss(judged)) for judged in update.judged()):
        yield from term
    counts = accumulation(update) if update.accumulates else []
    sizes = dict.fromkeys(_size(each.made) for each in loaders if _feeds(each.loader, update))
    microbatch = " or ".join(sizes) or _number(None)
    yield (
        "  global batch",
        f"microbatch {microbatch} × accumulation {' × '.join(map(_number, counts)) or 1} × ranks W",
        None,
    )


def _reduction(run: TrainingRun, update: Update) -> str:
    if update.summed is not None:
        return "gradients averaged over the ranks" if update.summed == 0 else "gradients summed over the ranks"
    if run.of_kind("wrap", "reduce gradients"):
        return "how its gradients are reduced over the ranks was not followed"
    return "no reduction of gradients in sight"


def _feeds(loader: Any, update: Update) -> bool:
    return any(s.of is loader for b in update.backwards for s in b.facts.of_kind(SourceKind.LOADER))


def _loss(judged: Judged) -> Iterator[Aspect]:
    """A term of the loss, and what shows that the ranks hold different numbers of what it counts."""
    yield "  loss term", f"{_term(judged)}; {_scale(judged)}", judged.term.reduction or judged.backward.site
    for evidence in dict.fromkeys(judged.term.even.evidence):
        yield "    because", evidence.text, evidence.site


def _term(judged: Judged) -> str:
    place = judged.place
    if place.is_unknown:
        return "its way from the targets to one number was not followed"
    return f"{place}, {_placed(place)}" + (f", {_EVENNESS[judged.term.even.state]}" if place.is_ratio else "")


def _placed(place: Placement) -> str:
    if place.is_replicate:
        return "the same on every rank"
    if place.is_ratio:
        return "a mean over this rank's targets"
    return "a sum over this rank's targets" if place.is_partial else "another number on each rank"


def _scale(judged: Judged) -> str:
    if judged.world is None:
        return "scale of the update not judged"
    if judged.place.is_ratio and judged.term.even.is_uneven:
        return "no scale makes the update the intended one"
    if not (judged.counted or judged.place.is_ratio or (judged.place.is_replicate and judged.world == 0)):
        return "scale of the update not judged, as no count divides it"
    if judged.world == 0:
        return "scale of the update: as intended"
    return f"scale of the update: W^{judged.world} times the intended one"


def _number(value: Value | None, unknown: str = "unknown") -> str:
    if isinstance(value, Const) and value.value is not None:
        return _written(value.value)
    if isinstance(value, Data) and isinstance(value.default, Const):
        return f"{_written(value.default.value)} (an option's default)"
    return unknown


def _written(value: object) -> str:
    try:
        text = str(value)
    except ValueError:  # an integer of more digits than Python writes
        return "a huge number"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _unseen(run: TrainingRun) -> Iterator[Aspect]:
    if not run.complete:
        yield "not seen", "the budget of steps ran out before the end: absence proves nothing in this run", None
    unknowns = sorted(run.unknowns.items(), key=lambda item: -item[1].times)
    for what, unknown in unknowns[:_MOST_UNKNOWNS]:
        yield "not seen", f"{what} ({unknown.times} times)" if unknown.times > 1 else what, unknown.first
    if len(unknowns) > _MOST_UNKNOWNS:
        yield "not seen", f"and {len(unknowns) - _MOST_UNKNOWNS} other kinds of things", None
