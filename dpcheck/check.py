"""Paths in, findings out."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence

from dpcheck.config import Settings
from dpcheck.execution import Execution, TrainingRun
from dpcheck.findings.finding import Finding, Note, Span
from dpcheck.findings.result import InternalError, Result
from dpcheck.findings.suppression import suppress
from dpcheck.program.cache import FOLDER, Cache
from dpcheck.program.link import Program
from dpcheck.registry import UNKNOWN_RULE, UNREADABLE_FILE, UNUSED_SUPPRESSION, Entry, Registry
from dpcheck.rule import Confidence
from dpcheck.source.files import Selection, discover, display
from dpcheck.source.ignores import Ignore

FRAMEWORKS = pathlib.Path(__file__).parent / "frameworks"
_CONFIDENCES = list(Confidence)
_FRAMES = 8


def check(paths: Sequence[pathlib.Path], settings: Settings, registry: Registry) -> Result:
    """Check the files at `paths`. Raises `RegistryError` when the settings name a rule that does not exist."""
    started = time.perf_counter()
    in_force = registry.choose(settings.selectors, pedantic=settings.config.pedantic)
    exempt = exemptions(settings, registry)

    def counts(code: str, path: str) -> bool:
        return code in in_force and code not in exempt(path)

    selection, program = link(paths, settings)
    errors: list[InternalError] = []
    unreadable = list(_unreadable(program, registry, errors))
    found = _run(program, [entry for entry in registry.entries if entry.rule.code in in_force], errors)
    judged = suppress(
        (finding for finding in merge(found) if counts(finding.rule.code, finding.span.path)),
        lambda path: program.unit(pathlib.Path(path)).ignores,
    )
    hygiene = [*unreadable, *_complaints(program, judged.used, registry, counts)]
    program.save()
    # Only now, so that a comment counts as used also when what it silences is too uncertain to be shown.
    sure = _CONFIDENCES[: _CONFIDENCES.index(settings.config.confidence) + 1]
    shown = [finding for finding in judged.shown if finding.confidence in sure]
    shown += [finding for finding in hygiene if counts(finding.rule.code, finding.span.path)]
    return Result(
        findings=tuple(sorted(shown, key=lambda finding: (finding.span, finding.rule.code))),
        files=len(selection.files),
        suppressed=sum(finding.confidence in sure for finding in judged.silenced),
        unreadable=len(unreadable),
        missing=tuple(path.as_posix() for path in selection.missing),
        unlisted=tuple(display(path) for path in selection.unlisted),
        errors=tuple(errors),
        seconds=time.perf_counter() - started,
    )


def link(paths: Sequence[pathlib.Path], settings: Settings) -> tuple[Selection, Program]:
    """The files that `paths` select, and the program that they make."""
    selection = discover(paths, exclude=settings.config.exclude, root=settings.root)
    cache = Cache(settings.root / FOLDER, settings.root) if settings.cache else None
    program = Program(selection, cache=cache, stub_folder=FRAMEWORKS)
    # A head start only: what fails here fails again where the file is wanted, and then costs that file alone.
    with contextlib.suppress(Exception):
        program.prepare()
    return selection, program


def exemptions(settings: Settings, registry: Registry) -> Callable[[str], frozenset[str]]:
    """Gives for a path the codes that `per-file-ignores` turns off in it."""
    if not settings.config.per_file_ignores:
        return lambda path: frozenset()
    import pathspec

    patterns = [
        (pathspec.GitIgnoreSpec.from_lines([pattern]), registry.expand(selectors, settings.origin))
        for pattern, selectors in settings.config.per_file_ignores.items()
    ]

    def exempt(path: str) -> frozenset[str]:
        place = pathlib.Path(path).absolute()
        if not place.is_relative_to(settings.root):
            return frozenset()
        inside = place.relative_to(settings.root).as_posix()
        return frozenset().union(*(codes for spec, codes in patterns if spec.match_file(inside)))

    return exempt


def merge(findings: Iterable[Finding]) -> list[Finding]:
    """One finding a rule and place: several runs may come upon the same fault. The surest speaks, the notes add up."""
    merged: dict[tuple[str, Span], Finding] = {}
    for finding in findings:
        key = (finding.rule.code, finding.span)
        other = merged.get(key, finding)
        surest = min(other, finding, key=lambda each: _CONFIDENCES.index(each.confidence))
        notes = tuple(dict.fromkeys((*surest.notes, *other.notes, *finding.notes)))
        merged[key] = dataclasses.replace(surest, notes=notes)
    return list(merged.values())


def _unreadable(program: Program, registry: Registry, errors: list[InternalError]) -> Iterator[Finding]:
    """A finding for each selected file that cannot be read, decoded or parsed."""
    for unit in program.units:
        try:
            error = unit.error
        except Exception:
            errors.append(InternalError(unit.display, "reading the file", _traceback()))
            continue
        if error is None:
            continue
        place = Span(unit.display, error.line, error.column, error.line, error.column + 1)
        yield Finding(
            registry.rule(UNREADABLE_FILE),
            f"this file cannot be checked, it {error.reason}",
            Span(unit.display, 1, 1, 1, 1),
            notes=(Note(place, error.reason),) if (error.line, error.column) != (1, 1) else (),
        )


def _run(program: Program, rules: Sequence[Entry], errors: list[InternalError]) -> list[Finding]:
    """What the rules find in every training run. Each entry file is executed by itself, so that one failure costs
    the results of that file alone, and the failure of a rule those of that rule.
    """
    found: list[Finding] = []
    execution = Execution(program)
    for part in (execution.script, execution.functions):
        for unit in program.entries:
            try:
                for run in part(unit):
                    found += _findings(run, rules, errors)
            except Exception:
                errors.append(InternalError(unit.display, "executing the program", _traceback()))
    return found


def _findings(run: TrainingRun, rules: Sequence[Entry], errors: list[InternalError]) -> list[Finding]:
    found: list[Finding] = []
    for entry in rules:
        if entry.check is None:
            continue
        try:
            found += entry.check(run)
        except Exception:
            errors.append(InternalError(run.entry.path, f"checking {entry.rule.code}", _traceback()))
    return found


def _traceback() -> str:
    """The innermost frames: a stack that overflowed would fill the screen."""
    return traceback.format_exc(limit=-_FRAMES)


def _complaints(
    program: Program,
    used: set[tuple[Ignore, str]],
    registry: Registry,
    counts: Callable[[str, str], bool],
) -> Iterator[Finding]:
    """A finding for each name in an ignore comment that is no rule's, or a rule's that had nothing to silence there.

    Only the selected files are held to it, and only the rules in force: the others had no chance to find anything.
    """
    unknown, unused = registry.rule(UNKNOWN_RULE), registry.rule(UNUSED_SUPPRESSION)
    for unit in program.units:
        for ignore in unit.ignores:
            if ignore.malformed:
                help_ = "write the rules in brackets, as in ignore[per-rank-mean]"
                yield Finding(unknown, "this comment names no rule and silences nothing", ignore.span, help=help_)
            for name, span in zip(ignore.names, ignore.name_spans, strict=True):
                entry = registry.find(name)
                if entry is None:
                    yield Finding(unknown, registry.unknown(name), span)
                elif counts(entry.rule.code, unit.display) and (ignore, name) not in used:
                    message = f"nothing is silenced here: {entry.rule.name} ({entry.rule.code}) finds no fault"
                    yield Finding(unused, message, span, help="remove the name, or the comment if it is the last")
