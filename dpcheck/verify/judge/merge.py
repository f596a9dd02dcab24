"""What `dpcheck check` finds in the script, held against what the run showed.

A finding in the source is confirmed by a measured one, refuted where the run judged its condition and found it right,
or was not exercised. In return it tells apart what looks the same from outside: a measured defect takes code and line
from the finding in the source that its figures fit as well.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from dpcheck.findings.finding import Finding
from dpcheck.rule import Group, Severity
from dpcheck.verify.judge.defect import NODES, RULES, times
from dpcheck.verify.judge.reached import Reached
from dpcheck.verify.result import Measured, Related, Report, Static, StaticFinding

_AS_MANY = "all ranks had as many targets, so that it could not show: try --uneven"
_OBJECTIVE_UNNAMED = frozenset({"undecidable-factor", "unexplained", "constant-factor", "unequal-parts"})


def merge(report: Report, static: Sequence[Finding], reached: Reached | None = None) -> Report:
    """The report with its findings confirmed and sharpened, and a status for each finding in the source.

    `reached` are the lines that the run came to; without it, it is taken to have come to all. A pedantic finding is
    told only where it is confirmed.
    """
    findings = list(report.findings)
    confirmed: dict[int, str] = {}
    for exact in (True, False):
        for place, found in enumerate(findings):
            if found.static is None:
                match = _match(found, static, confirmed, exact=exact)
                if match is not None:
                    findings[place] = _sharpened(found, static[match])
                    confirmed[match] = "measured in this run"
                    if not _touches(static[match], found):
                        confirmed |= dict.fromkeys(_same(static, match), "measured in this run")
    named = _named_by_source(report, static, confirmed) if not findings or report.verdict == "inconclusive" else None
    verdict, reason = report.verdict, report.reason
    if named is not None:
        findings = [found for found in findings if found.confidence != "low"] + [named]
        verdict, reason = "different", named.message
    told = [
        StaticFinding(
            code=each.rule.code,
            name=each.rule.name,
            path=each.span.path,
            line=each.span.line,
            message=each.message,
            status=status,
            reason=why,
        )
        for number, each in enumerate(static)
        for status, why in (_status(each, report, confirmed.get(number), reached),)
        if status == "confirmed" or not each.rule.pedantic
    ]
    return msgspec.structs.replace(report, findings=findings, static=told, verdict=verdict, reason=reason)


def _match(found: Measured, static: Sequence[Finding], taken: dict[int, str], *, exact: bool) -> int | None:
    """The finding in the source that the measured one confirms: of its code or one that looks alike, its line first.

    Where the line is known exactly, one on another line may stand in a branch that was not taken: it is believed only
    if nothing else in the source comes into question.
    """
    codes = [found.code] if exact else found.alternatives
    fitting = [
        number for number, each in enumerate(static) if each.rule.code in codes and (exact or number not in taken)
    ]
    on_line = [number for number in fitting if _touches(static[number], found)]
    if on_line:
        return on_line[0]
    if found.exact_line:
        group = RULES[found.code].group
        rivals = [each for each in static if each.rule.group is group and each.rule.severity is not Severity.NOTE]
        return fitting[0] if len(fitting) == len(rivals) == 1 else None
    return min(fitting, key=lambda number: codes.index(static[number].rule.code), default=None)


def _touches(each: Finding, found: Measured) -> bool:
    spans = (each.span, *(note.span for note in each.notes))
    return any(span.path == found.path and span.line <= found.line <= span.end_line for span in spans)


def _same(static: Sequence[Finding], match: int) -> list[int]:
    """The findings of the same code: a measurement that names none of their lines cannot tell which it comes from."""
    return [number for number, each in enumerate(static) if each.rule.code == static[match].rule.code]


def _sharpened(found: Measured, each: Finding) -> Measured:
    """The measured finding with the code and the span of the one in the source; an exact line of its own it keeps."""
    if found.exact_line and found.code == each.rule.code and not _touches(each, found):
        here = Related(path=each.span.path, line=each.span.line, column=each.span.column, message="found in the source")
        return msgspec.structs.replace(found, related=[*found.related, here], static="confirmed")
    span = each.span
    related = [
        Related(path=note.span.path, line=note.span.line, column=note.span.column, message=note.label)
        for note in each.notes
    ]
    if (found.path, found.line) != (span.path, span.line) and _is_telling(found, each):
        related.append(Related(path=found.path, line=found.line, message="where it was measured"))
    known = {(other.path, other.line) for other in related}
    related += [other for other in found.related if (other.path, other.line) not in known]
    severity = found.severity if found.severity == "note" else each.rule.severity.value
    return msgspec.structs.replace(
        found,
        code=each.rule.code,
        name=each.rule.name,
        severity=severity,
        path=span.path,
        line=span.line,
        column=span.column,
        end_line=span.end_line,
        end_column=span.end_column,
        message=found.message if each.rule.code == found.code else each.message,
        help=each.help or found.help,
        related=related,
        static="confirmed",
    )


def _is_telling(found: Measured, each: Finding) -> bool:
    return found.line > 1 and not any(
        (note.span.path, note.span.line) == (found.path, found.line) for note in each.notes
    )


def _named_by_source(report: Report, static: Sequence[Finding], taken: dict[int, str]) -> Measured | None:
    """A gradient that is off and that no figures explain: a finding about the objective says why."""
    if report.objective.explanation not in _OBJECTIVE_UNNAMED or report.objective.relative_error is None:
        return None
    wanted = ("DP303",) if report.objective.explanation == "undecidable-factor" else None
    measured = [found for found in report.findings if found.confidence == "low"]
    for number, each in enumerate(static):
        if each.rule.group is Group.OBJECTIVE and (wanted is None or each.rule.code in wanted):
            if each.rule.code not in RULES or each.rule.severity is Severity.NOTE:
                continue
            if report.detection.losses and measured and not any(_touches(each, found) for found in measured):
                continue  # of another branch
            taken[number] = "the gradient is off, and nothing else explains it"
            span = each.span
            return Measured(
                code=each.rule.code,
                name=each.rule.name,
                severity=each.rule.severity.value,
                confidence="medium",
                message=each.message,
                path=span.path,
                line=span.line,
                column=span.column,
                end_line=span.end_line,
                end_column=span.end_column,
                help=each.help,
                evidence=[report.objective.sentence],
                static="confirmed",
            )
    return None


# -- what became of a finding


def _status(each: Finding, report: Report, confirmed: str | None, reached: Reached | None) -> tuple[Static, str]:
    if confirmed is not None:
        return "confirmed", confirmed
    if report.verdict in ("script-error", "hang"):
        return "not-exercised", "the run did not come so far"
    code = each.rule.code
    if each.rule.group is Group.COLLECTIVES and code in ("DP501", "DP502", "DP505"):
        if report.collectives.matched and reached is not None and reached.is_issued(each):
            return "refuted", "every rank issued the collective at this line, in the same order"
        return "not-exercised", f"{times(report.steps, 'step')} did not lead there"
    if each.rule.group is Group.OBJECTIVE and not _was_computed(each, report):
        return "not-exercised", "this run did not compute the loss on that line"
    judge = {
        Group.WEIGHTS: _of_weights,
        Group.DATA: _of_data,
        Group.OBJECTIVE: _of_objective,
        Group.SYNC: _of_sync,
    }.get(each.rule.group)
    if judge is None:
        return "not-exercised", "a comparison of gradients does not show it"
    status, why = judge(code, report)
    if status == "refuted" and reached is not None and not reached.is_seen(each):
        return "not-exercised", "the run was not seen to come to these lines"
    return status, why


def _was_computed(each: Finding, report: Report) -> bool:
    """Whether a loss of the run stands on one of the finding's lines; where no loss was seen, it may have been."""
    spans = (each.span, *(note.span for note in each.notes))
    losses = report.detection.losses
    return not losses or any(
        span.path == loss.path and span.line <= loss.line <= span.end_line for span in spans for loss in losses
    )


def _of_weights(code: str, report: Report) -> tuple[Static, str]:
    weights = report.weights
    if code in ("DP101", "DP102", "DP103") and weights.after_steps == "equal" and weights.buffers != "different":
        return "refuted", "the ranks held the same weights before every step"
    if code == "DP104" and report.sync.agree:
        return "refuted", "the ranks used the same gradient for every parameter"
    if code == "DP106" and weights.buffers == "equal":
        return "refuted", "the ranks held the same buffers before every step"
    return "not-exercised", "the run does not show it"


def _of_data(code: str, report: Report) -> tuple[Static, str]:
    data = report.data
    if code == "DP203":
        if data.epoch_repeated is False:
            return "refuted", "the second pass had another order"
        return "not-exercised", "one pass was not enough: try --epochs 2"
    if code == "DP210":
        if data.batches and None not in data.batches and len(set(data.batches)) == 1:
            return "refuted", f"every rank has {times(data.batches[0] or 0, 'batch')}"
        return "not-exercised", f"{times(report.steps, 'step')} did not lead to the end of the shards"
    if code == "DP204" and not any(note.kind == NODES for note in report.notes):
        return "not-exercised", "one machine may not show it: try --nodes 2"
    if data.disjoint and data.tolerated:
        return "not-exercised", f"several ranks saw {times(data.tolerated, 'sample')}: too few to tell, try --steps"
    if code in ("DP201", "DP202", "DP204", "DP205", "DP206", "DP207", "DP208") and data.disjoint:
        return "refuted", f"the ranks saw different samples: {' + '.join(map(str, data.samples))}"
    return "not-exercised", "the run does not show it"


def _of_objective(code: str, report: Report) -> tuple[Static, str]:
    objective, detection = report.objective, report.detection
    if not objective.equal:
        return (
            "not-exercised",
            "the gradients could not be compared" if not objective.judged else "the run does not show it",
        )
    if code in ("DP301", "DP302", "DP308"):
        if detection.hides_per_rank_mean:
            return "not-exercised", _AS_MANY
        if detection.hides_per_rank_mean is None:
            return "not-exercised", "the ranks' targets could not be counted"
    if code == "DP305" and report.global_batch.accumulation < 2:
        return "not-exercised", "no step of this run accumulates"
    return "refuted", "the gradients are those of one process"


def _of_sync(code: str, report: Report) -> tuple[Static, str]:
    if code in ("DP401", "DP402", "DP404") and report.sync.agree:
        return "refuted", "the ranks used the same gradients in every step"
    if code == "DP403" and report.objective.equal:
        return "refuted", "the clipped gradients are those of one process"
    return "not-exercised", "the run does not show it"
