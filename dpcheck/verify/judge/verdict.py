"""From evidence to the report: each condition is judged by itself, and the gravest that fails gives the verdict.

Order: how the ranks ended, the collectives, the weights, lockstep, the data, the synchronization, the objective. What
stands later is judged as far as what stands earlier allows: gradients of ranks that hold different models say nothing.
"""

from __future__ import annotations

import collections
import pathlib
from collections.abc import Iterable

import numpy as np

from dpcheck.source.files import display
from dpcheck.verify.judge import collectives, compare, data, ending, objective, sync, weights
from dpcheck.verify.judge.defect import NODES, RULES, Defect, line_of, remark, times
from dpcheck.verify.judge.detection import detection
from dpcheck.verify.judge.evidence import Evidence, known
from dpcheck.verify.recording import Place
from dpcheck.verify.result import Detection, GlobalBatch, Measured, Objective, Related, Remark, Report, Verdict

_CROSSED = ", and from then on their collectives belong to different iterations"
_OF_THE_SCRIPT = frozenset({"no-sync"})  # notes that the judges read, and that are nothing which was changed


@np.errstate(all="ignore")  # a script may compute what is not finite, and numpy would tell on standard error
def judge(evidence: Evidence) -> Report:
    """The report of a run."""
    settings = evidence.settings
    tolerance = compare.tolerance_for(settings.dtype)
    ends = ending.judge(evidence)
    report = Report(
        verdict="inconclusive",
        reason="",
        script=_script(settings.script),
        arguments=settings.arguments,
        ranks=evidence.world_size,
        steps=len(evidence.steps),
        dtype=settings.dtype,
        endings=ends.ends,
        seconds=evidence.seconds,
    )
    report.notes += _notes(evidence)
    issued = collectives.judge(evidence)
    report.collectives = issued.collectives
    if ends.verdict is not None:
        return _ended(report, ends, issued, evidence)
    refusal = _nothing_to_judge(evidence)
    if refusal:
        report.reason = refusal
        return report

    synced = sync.judge(evidence, tolerance)
    held = weights.judge(evidence, synced.identical)
    fed = data.judge(evidence)
    report.sync, report.weights, report.data = synced.sync, held.weights, fed.data
    report.global_batch = _global_batch(evidence)

    def refuse(step: int) -> str | None:
        if step > held.same_until:
            return f"by step {step} the ranks held different models: their gradients are not those of one"
        return None if synced.agreed(step) else f"in step {step} the ranks used different gradients"

    meant = objective.judge(evidence, refuse, tolerance, strict=settings.strict)
    report.objective = meant.objective
    report.detection = detection(evidence, meant, tolerance)
    report.notes += [*held.remarks, *fed.remarks]
    if settings.uneven:
        text = (
            "--uneven shortened the last rank's batches: a mean that relies on equal batches shows here, and only here"
        )
        report.notes.append(remark("uneven", text, Place()))
    if settings.nodes > 1:
        text = f"--nodes {settings.nodes} counted local ranks as on {settings.nodes} machines"
        report.notes.append(remark(NODES, text, Place()))
    if held.weights.norm_statistics == "different":
        report.notes.append(_norm_remark(evidence))

    failing = bool(synced.defects) or (meant.objective.equal is False)
    skipped = _out_of_step(evidence) if failing or issued.defects else None
    if skipped is not None:
        report.objective = Objective(tolerance=tolerance.relative, reason="the ranks did not go through it in step")
        report.detection = Detection()
        report.findings = _findings([*held.defects, skipped], evidence)
        _conclude(report, "mismatch", skipped.message)
    elif issued.defects:
        report.findings = _findings([*issued.defects, *held.defects, *fed.defects], evidence)
        _conclude(report, "mismatch", issued.defects[0].message)
    elif synced.defects and sync.averages_weights(evidence):
        # Local SGD: what follows from ranks that step apart is meant.
        report.findings = _findings(fed.defects, evidence)
        report.sync.agree = None
        report.objective.reason = "the ranks step apart and average their weights now and then (local SGD)"
        _weigh(report, settings.strict)
    else:
        report.findings = _findings([*held.defects, *fed.defects, *synced.defects, *meant.defects], evidence)
        _weigh(report, settings.strict)
    return report


def _weigh(report: Report, strict: bool) -> None:
    """The verdict of a run in which all ranks came through with the same collectives."""
    sync_, objective_ = report.sync, report.objective
    failing = ("DP307", "DP209") if strict else ("DP307",)
    defects = [finding for finding in report.findings if finding.severity != "note" or finding.code in failing]
    if defects or sync_.agree is False or objective_.equal is False:
        first = defects[0].message if defects else objective_.sentence
        _conclude(report, "different", first)
    elif not objective_.judged or objective_.equal is None:
        _conclude(report, "inconclusive", objective_.reason)
    elif approximated := next((note for note in report.notes if note.kind == "approximating-hook"), None):
        _conclude(report, "inconclusive", f"without it the update is that of one process, but {approximated.text}")
    else:
        how = ""
        if objective_.explanation == "batch-norm":
            how = ", but for BatchNorm's statistics, which each rank takes from its own samples"
        _conclude(
            report,
            "equivalent",
            f"the {times(report.ranks, 'rank')} together computed the update of one process in "
            f"{times(len(report.detection.steps), 'step')}{how}",
        )


def _conclude(report: Report, verdict: Verdict, reason: str) -> None:
    report.verdict, report.reason = verdict, reason


# -- before anything is compared


def _ended(report: Report, ends: ending.Judgement, issued: collectives.Judgement, evidence: Evidence) -> Report:
    assert ends.verdict is not None
    _conclude(report, ends.verdict, ends.reason)
    if ends.verdict == "script-error" and evidence.settings.dtype == "float64" and _speaks_of_types(report):
        text = "the run was promoted to float64; --dtype float32 keeps the types that the script expects"
        report.notes.append(remark("dtype", text, Place()))
    report.findings = _findings(ends.defects or (issued.defects if ends.verdict != "script-error" else []), evidence)
    if evidence.steps and ends.verdict in ("hang", "mismatch"):
        report.data = data.judge(evidence).data
        report.global_batch = _global_batch(evidence)
    return report


def _speaks_of_types(report: Report) -> bool:
    """Whether the script may have failed because of the promotion."""
    told = "".join(f"{end.message} {end.traceback}" for end in report.endings).lower()
    return any(word in told for word in ("dtype", "float32", "bfloat16", "float16", "double", "scalar type"))


def _nothing_to_judge(evidence: Evidence) -> str:
    """Why there is nothing to compare; empty where there is."""
    if evidence.world_size < 2:
        return "one rank alone has nobody to agree with"
    recordings = evidence.recordings
    if not any(recording.wraps or recording.collectives or recording.group > 1 for recording in recordings):
        return "the script never ran data-parallel: it wrapped no model and called no collective"
    if not evidence.steps:
        made = [len(process.windows) for process in evidence.ranks]
        if not any(made):
            return "the ranks came to the end of the script without a step of an optimizer"
        said = ", ".join(f"rank {rank} {count}" for rank, count in enumerate(made))
        return f"there is no optimizer step that all ranks made (steps: {said})"
    return ""


def _out_of_step(evidence: Evidence) -> Defect | None:
    """Whether the ranks made different numbers of forwards or backwards before one step: they no longer go together."""
    for step in evidence.steps:
        windows = evidence.window(step).windows
        forwards = [window.forwards for window in windows]
        backwards = [window.backwards for window in windows]
        if len(set(forwards)) == 1 and len(set(backwards)) == 1:
            continue
        numbers, what = (backwards, "backward") if len(set(backwards)) > 1 else (forwards, "forward")
        listed = ", ".join(f"rank {rank} {number}" for rank, number in enumerate(numbers))
        return Defect(
            "DP502",
            f"before step {step} the ranks made different numbers of {what}s ({listed}): one of them skipped or "
            f"repeated a batch{_CROSSED if numbers is backwards else ''}",
            known(*(window.forwarded for window in windows), windows[0].place),
            help="let all ranks decide together, by a reduced value",
            alternatives=("DP210", "DP601"),
        )
    return None


def _norm_remark(evidence: Evidence) -> Remark:
    windows = evidence.window(evidence.steps[0]).windows
    place = known(*(window.batch_norm for window in windows))
    return remark("norm-statistics", "BatchNorm's running statistics differ between the ranks", place)


# -- counting


def _global_batch(evidence: Evidence) -> GlobalBatch:
    """global batch = micro-batch × accumulation × ranks, as the first step had it."""
    if not evidence.steps:
        return GlobalBatch(ranks=evidence.world_size)
    windows = evidence.window(evidence.steps[0]).windows
    sizes: list[list[int]] = []
    accumulation = max(windows[0].backwards, 1)
    for window, recording in zip(windows, evidence.recordings, strict=True):
        fetches = [recording.fetches[number] for number in window.fetches]
        sizes.append([len(fetch.samples or fetch.indices or ()) for fetch in fetches])
        if fetches:
            accumulation = max(collections.Counter(fetch.loader for fetch in fetches).values())
    if not all(map(any, sizes)):
        sizes = [_split(len(window.inputs), window.forwards) for window in windows]
    return GlobalBatch(
        microbatch=sizes[0][0] if sizes[0] else None,
        accumulation=accumulation,
        ranks=evidence.world_size,
        samples=sum(map(sum, sizes)) or None,
    )


def _split(rows: int, forwards: int) -> list[int]:
    """The rows that entered the models, forward by forward, as far as one can tell."""
    return [rows // forwards] * forwards if rows and forwards and rows % forwards == 0 else [rows] if rows else []


# -- findings and notes


def _findings(defects: Iterable[Defect], evidence: Evidence) -> list[Measured]:
    found: list[Measured] = []
    for defect in defects:
        made = measured(defect, evidence.settings.script)
        alike = [other for other in found if other.code == made.code]
        if not any((other.path, other.line) == (made.path, made.line) or made.code == "DP403" for other in alike):
            found.append(made)
    return found


def measured(defect: Defect, script: str) -> Measured:
    """A defect as a finding. Where no line of the user's was on the stack, the script's first stands for it."""
    rule = RULES[defect.code]
    path, line = line_of(defect.place) if defect.place.path else (_script(script), 1)
    return Measured(
        code=rule.code,
        name=rule.name,
        severity="note" if defect.remark else rule.severity.value,
        confidence="high" if defect.sure else "low",
        message=defect.message,
        path=path,
        line=line,
        end_line=line,
        exact_line=defect.exact,
        related=[
            Related(path=line_of(place)[0], line=place.line, message=label)
            for place, label in defect.related
            if place.path
        ],
        help=defect.help,
        evidence=list(defect.evidence),
        alternatives=list(defect.alternatives),
    )


def _script(script: str) -> str:
    return display(pathlib.Path(script)) if script.endswith(".py") or "/" in script else script


def _notes(evidence: Evidence) -> list[Remark]:
    """What was changed or could not be seen, once each, whichever process says so."""
    notes = [note for recording in evidence.recordings for note in recording.notes]
    of_ranks = {(note.kind, note.place) for note in notes}
    for process in evidence.references.values():
        # What a reference says of the same line speaks of its one rank, where a rank spoke of all.
        own = process.recording.notes if process.recording is not None else []
        notes += [note for note in own if (note.kind, note.place) not in of_ranks]
    found: dict[tuple[str, str, str, int], Remark] = {}
    for note in notes:
        if note.kind not in _OF_THE_SCRIPT:
            said = remark(note.kind, note.text, note.place)
            found.setdefault((said.kind, said.text, said.path, said.line), said)
    return list(found.values())
