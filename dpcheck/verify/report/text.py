"""The report for a person: the verdict first, then the conditions with their evidence, the findings, and the limits."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from dpcheck.report import Lines
from dpcheck.report.full import finding_lines
from dpcheck.report.style import Style, shown
from dpcheck.report.summary import plural
from dpcheck.verify.judge.defect import RULES, percent, some, tensor_name
from dpcheck.verify.report.findings import as_finding
from dpcheck.verify.result import Equality, Measured, Report, Verdict

_COLORS: dict[Verdict, str] = {
    "equivalent": "1;32",
    "different": "1;31",
    "mismatch": "1;31",
    "hang": "1;31",
    "inconclusive": "1;33",
    "script-error": "1;33",
}
_WIDTH = 100
_LABEL = 13  # columns
_TRACEBACK = 40  # lines
_STATUS = {"confirmed": "confirmed", "refuted": "refuted on this run", "not-exercised": "not exercised"}


def render(report: Report, lines: Lines, *, color: bool = False) -> str:
    style = Style(color)
    sections = [
        list(_head(report, style)),
        list(_conditions(report, style)) if _was_judged(report) else list(_endings(report, style)),
        *(list(_finding(finding, lines, style)) for finding in report.findings),
        list(_proof(report, style)),
        list(_source(report, style)),
        list(_limits(report, style)) if _was_judged(report) else [],
        list(_notes(report, style)),
    ]
    return "\n\n".join("\n".join(section) for section in sections if section) + "\n"


def _was_judged(report: Report) -> bool:
    """Whether the ranks came to their steps, so that there are conditions to speak of."""
    return report.verdict not in ("hang", "script-error") and report.weights.after_steps != "unknown"


def _head(report: Report, style: Style) -> Iterator[str]:
    yield f"{style.paint(_COLORS[report.verdict], report.verdict)}{style.bold(f': {shown(report.reason)}')}"
    command = shown(" ".join([report.script, *report.arguments]))
    parts = [
        f"{plural(report.ranks, 'rank')}, {plural(report.steps, 'step')}, {report.dtype}",
        f"{report.seconds:.1f} s",
    ]
    yield style.faint(f"{command}: {'; '.join(parts)}" if command else "; ".join(parts))


# -- conditions


def _conditions(report: Report, style: Style) -> Iterator[str]:
    rows = (
        ("weights", _weights(report)),
        ("data", _data(report)),
        ("objective", _objective(report)),
        ("sync", _sync(report)),
        ("collectives", _collectives(report)),
        ("counting", _counting(report)),
    )
    for label, sentences in rows:
        yield from _row(label, sentences, style)


def _row(label: str, sentences: Sequence[str], style: Style) -> Iterator[str]:
    for number, sentence in enumerate(sentences):
        for part, line in enumerate(_wrapped(sentence)):
            first = number == 0 and part == 0
            yield f"  {style.bold(label.ljust(_LABEL)) if first else ' ' * _LABEL}{line}"


def _wrapped(sentence: str, width: int = _WIDTH - _LABEL - 2) -> list[str]:
    return textwrap.wrap(shown(sentence), width, break_long_words=False, break_on_hyphens=False) or [""]


def _weights(report: Report) -> list[str]:
    weights = report.weights
    moments: list[tuple[str, Equality]] = [
        ("when the models were built", weights.initial),
        ("after the wrap", weights.after_wrap),
        ("before the steps" if weights.after_steps == "different" else "before every step", weights.after_steps),
    ]
    said = []
    for equality in ("different", "equal"):
        which = [moment for moment, found in moments if found == equality]
        if which:
            said.append(f"{equality} {_listed(which)}")
    sentences = ["; ".join(said) or "not seen"]
    if weights.hidden:
        sentences[0] = "the ranks built different models, and the wrapper made them equal before the first step"
    if weights.first_difference is not None:
        names = some(weights.tensors, count=weights.differing)
        count = f"{weights.differing} of {plural(weights.compared, 'tensor')}"
        sentences.append(f"{count} differ before step {weights.first_difference}: {names}")
    if weights.buffers == "different":
        sentences.append(f"buffers differ: {some(weights.differing_buffers)}")
    elif weights.buffers == "equal":
        sentences.append("buffers equal")
    if weights.norm_statistics == "different":
        sentences.append("BatchNorm's running statistics differ")
    return sentences


def _data(report: Report) -> list[str]:
    data = report.data
    samples = " + ".join(map(str, data.samples))
    noun = "rows that entered the models" if data.by == "inputs" else "samples"
    if data.disjoint is None:
        sentences = ["not seen: no loader was read, and no row of the models' inputs is known"]
    elif data.disjoint and data.tolerated:
        sentences = [f"{samples} {noun}, {data.tolerated} of them on several ranks: few enough to even the shards"]
    elif data.disjoint:
        sentences = [f"disjoint: {samples} {noun}"]
    else:
        sentences = [f"shared: {data.overlap} of {samples} {noun} went to several ranks"]
    if data.epoch_overlap:
        sentences.append(
            f"over the whole pass {data.epoch_overlap} of {data.epoch_samples} samples go to several ranks"
        )
    if data.epoch_repeated is not None:
        sentences.append(f"the second pass had {'the same' if data.epoch_repeated else 'another'} order")
    return sentences


def _objective(report: Report) -> list[str]:
    objective = report.objective
    if not objective.judged:
        return [f"not judged: {objective.reason}"]
    assert objective.relative_error is not None or objective.explanation
    error = percent(objective.relative_error) if objective.relative_error is not None else "beyond all bounds"
    figures = f"error {error}, tolerance {objective.tolerance:.0e}{', coarse' if objective.coarse else ''}"
    if objective.equal and objective.explanation == "equivalent":
        sentences = [f"equal: {objective.sentence} ({figures})"]
    else:
        word = {True: "equal", False: "different", None: "undecided"}[objective.equal]
        sentences = [f"{word} in step {objective.step}: {objective.sentence}"]
        if objective.k is not None and objective.residual is not None:
            rest = "exactly" if objective.residual <= objective.tolerance else f"but for {percent(objective.residual)}"
            figures += f"; the gradient is {objective.k:.4g} times that of one process, {rest}"
        sentences.append(figures)
    if objective.targets:
        sentences.append(f"targets: {' + '.join(map(str, objective.targets))}{_target_weights(report)}")
    failed = [tensor for tensor in objective.worst if tensor.failed]
    if failed and objective.equal is False:
        worst = ", ".join(f"{tensor_name(tensor.name)} {_error(tensor.relative_error)}" for tensor in failed[:3])
        sentences.append(f"worst tensors: {worst}")
    if len(objective.steps) > 1 and objective.equal is not True:
        steps = ", ".join(_error(step.relative_error) for step in objective.steps)
        sentences.append(f"by step: {steps}")
    return sentences


def _target_weights(report: Report) -> str:
    weights = report.objective.target_weights
    if not weights:
        return ""
    ranks = " | ".join(
        " … ".join(f"{weight:.4g}" for weight in (own[:1] + own[-1:] if len(own) > 1 else own)) for own in weights
    )
    return f"; weight of a target in the update, by rank: {ranks}"


def _error(relative: float | None) -> str:
    return percent(relative) if relative is not None else "beyond all bounds"


def _sync(report: Report) -> list[str]:
    sync = report.sync
    if sync.agree is False:
        names = some(sync.tensors, count=sync.differing)
        return [f"different: {sync.differing} of {plural(sync.compared, 'tensor')} in step {sync.step}: {names}"]
    if sync.agree is None and sync.differing:
        return ["not judged: every rank steps with gradients of its own"]
    if sync.agree is None:
        return ["not compared: no two ranks hold the same whole gradient"]
    if sync.exact is None:
        return ["all ranks used the same gradients; their own gradients were not seen"]
    if not sync.exact:
        error = f", off by {percent(sync.error)}" if sync.error is not None else ""
        return [f"all ranks used the same gradients, which are not the mean of their own{error}"]
    how = "bit for bit" if sync.bitwise else "to rounding"
    by = f" {sync.factor:.4g} times" if sync.factor is not None else ""
    return [f"exact: the gradients are{by} the mean of the ranks' own, {how}"]


def _collectives(report: Report) -> list[str]:
    collectives = report.collectives
    if collectives.matched is None:
        return ["not compared"]
    if not collectives.matched:
        return [f"different: {collectives.difference}"]
    per_step = f"{plural(collectives.per_step, 'collective')} and {_bytes(collectives.bytes_per_step)} a step"
    return [f"the same on all ranks: {per_step}"]


def _counting(report: Report) -> list[str]:
    batch = report.global_batch
    parts = [
        plural(batch.microbatch, "sample") if batch.microbatch is not None else "a batch",
        plural(batch.accumulation, "micro-batch").replace("batchs", "batches"),
        plural(batch.ranks, "rank"),
    ]
    total = f" = {plural(batch.samples, 'sample')} an update" if batch.samples is not None else ""
    return [" × ".join(parts) + total]


def _bytes(count: int) -> str:
    size = float(count)
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} GB"


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


# -- endings


def _endings(report: Report, style: Style) -> Iterator[str]:
    """Where each rank is, and the traceback of the first that failed."""
    told = ""
    for end in report.endings:
        at = f"{', last seen' if end.last_seen else ''} at {end.path}:{end.line}" if end.path else ""
        inside = f" inside {end.inside}" if end.inside else ""
        message = f": {end.message}" if end.message else ""
        yield from _row(
            f"rank {end.rank}", [f"{end.how}{inside}{at}, after {plural(end.steps, 'step')}{message}"], style
        )
        if end.traceback and not told and report.verdict in ("script-error", "mismatch"):
            told = end.traceback
    for line in told.rstrip().splitlines()[-_TRACEBACK:]:
        yield f"  {' ' * _LABEL}{style.faint('|')} {shown(line)}".rstrip()


# -- findings


def _finding(finding: Measured, lines: Lines, style: Style) -> Iterator[str]:
    as_found = as_finding(finding, lines)
    yield from finding_lines(as_found, lines, style)
    margin = len(str(max(mark.end_line for mark in (as_found.span, *(note.span for note in as_found.notes)))))
    said = [f"{style.bold('measured')}: {shown(evidence)}" for evidence in finding.evidence]
    if finding.static == "confirmed":
        known = RULES.get(finding.code)
        flag = " --pedantic" if known is not None and known.pedantic else ""
        said.append(f"{style.bold('note')}: dpcheck check{flag} finds it in the source as well")
    if finding.alternatives and finding.static is None:
        said.append(
            f"{style.bold('note')}: from outside this looks like {' or '.join(finding.alternatives[:3])} as well"
        )
    for line in said:
        yield f"{' ' * margin} {style.faint('=')} {line}"


def _proof(report: Report, style: Style) -> Iterator[str]:
    tried = report.counterfactual
    if tried is None:
        return
    yield style.bold("what mends it")
    yield from _item(
        f"{tried.change}, in memory, and the ranks run again: {tried.measured} {tried.before:.2g} → {tried.after:.2g} "
        f"({tried.seconds:.1f} s)"
    )


def _source(report: Report, style: Style) -> Iterator[str]:
    """What became of the findings of `dpcheck check`."""
    rest = [each for each in report.static if each.status != "confirmed"]
    if not rest:
        return
    yield style.bold("found in the source")
    for each in rest:
        yield from _item(f"{each.code} {each.name} at {each.path}:{each.line}: {_STATUS[each.status]}, {each.reason}")


# -- limits and notes


def _limits(report: Report, style: Style) -> Iterator[str]:
    detection, objective = report.detection, report.objective
    if not objective.judged:
        return
    yield style.bold("what would have been seen")
    if detection.smallest_weight_error is not None:
        yield from _item(f"an error of {detection.smallest_weight_error:.1e} and more in one rank's weight in the mean")
    if detection.per_rank_mean:
        yield from _item(
            f"a mean over each rank's own targets: the gradients would be off by {percent(detection.per_rank_mean)}"
        )
    seen = [f"{loss.function} at {loss.path}:{loss.line}" for loss in detection.losses]
    parameters = f"{detection.judged_parameters:,} of {detection.parameters:,} parameters"
    losses = f", the losses of {_listed(seen[:4])}" if seen else ""
    yield from _item(f"judged: {plural(len(detection.steps), 'step')}, {parameters}{losses}")
    for unseen in detection.unseen:
        yield from _item(f"not seen: {unseen}")


def _notes(report: Report, style: Style) -> Iterator[str]:
    if not report.notes:
        return
    yield style.bold("notes on this run")
    for note in report.notes:
        at = f" ({note.path}:{note.line})" if note.path else ""
        yield from _item(f"{note.text}{at}")


def _item(sentence: str) -> Iterator[str]:
    for number, line in enumerate(_wrapped(sentence, _WIDTH - 4)):
        yield f"  {'- ' if number == 0 else '  '}{line}"
