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
from dpcheck.execution.describe import described
from dpcheck.findings.finding import Finding, Note, Span
from dpcheck.findings.result import InternalError, Result
from dpcheck.findings.suppression import suppress
from dpcheck.program.cache import FOLDER, Cache
from dpcheck.program.link import Program, Unit
from dpcheck.registry import UNKNOWN_RULE, UNREADABLE_FILE, UNUSED_SUPPRESSION, Entry, Registry
from dpcheck.rule import Confidence
from dpcheck.source.files import Selection, discover, display
from dpcheck.source.ignores import Ignore
from dpcheck.source.text import Unreadable

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
    failures = [_unreadable_file(error, registry) for error in unreadable(program, errors)]
    rules = [entry for entry in registry.entries if entry.rule.code in in_force]
    found = [finding for run in runs(program, errors) for finding in _findings(run, rules, errors)]
    comments = _Comments(program, errors)
    judged = suppress(
        (finding for finding in merge(found) if counts(finding.rule.code, finding.span.path)), comments.of
    )
    hygiene = [*failures, *_complaints(program, comments, judged.used, registry, counts)]
    try:
        program.save()
    except Exception:
        errors.append(InternalError(display(settings.root / FOLDER), "writing the cache", _traceback()))
    # Only now, so that a comment counts as used also when what it silences is too uncertain to be shown.
    sure = _CONFIDENCES[: _CONFIDENCES.index(settings.config.confidence) + 1]
    shown = [finding for finding in judged.shown if finding.confidence in sure]
    shown += [finding for finding in hygiene if counts(finding.rule.code, finding.span.path)]
    return Result(
        findings=tuple(sorted(shown, key=lambda finding: (finding.span, finding.rule.code))),
        files=len(selection.files),
        suppressed=sum(finding.confidence in sure for finding in judged.silenced),
        unreadable=len(failures),
        missing=tuple(path.as_posix() for path in selection.missing),
        irregular=tuple(path.as_posix() for path in selection.irregular),
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
        (pathspec.GitIgnoreSpec.from_lines([pattern]), registry.expand(selectors, settings.origin, settings.places))
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


def unreadable(program: Program, errors: list[InternalError]) -> Iterator[Unreadable]:
    """Why selected files cannot be read, decoded or parsed, for those that cannot. What fails is added to `errors`."""
    for unit in program.units:
        try:
            error = unit.error
        except Exception:
            errors.append(InternalError(unit.display, "reading the file", _traceback()))
            continue
        if error is not None:
            yield error


def _unreadable_file(error: Unreadable, registry: Registry) -> Finding:
    path = display(error.path)
    place = Span(path, error.line, error.column, error.line, error.column + 1)
    inside = (error.line, error.column) != (1, 1)
    return Finding(
        registry.rule(UNREADABLE_FILE),
        f"this file cannot be checked, it {error.reason}{f' (line {error.line})' if inside else ''}",
        Span(path, 1, 1, 1, 1),
        notes=(Note(place, error.reason),) if inside else (),
    )


def runs(program: Program, errors: list[InternalError], *, unfinished: bool = False) -> Iterator[TrainingRun]:
    """Every training run. Each entry file is executed by itself, so that a failure costs the results of that file
    alone; it is added to `errors`. With `unfinished`, those follow that may be one and came to no end.
    """
    try:
        entries = program.entries
    except Exception:
        errors.append(InternalError(".", "looking for what can be run", _traceback()))
        return
    execution = Execution(program)
    for part in execution.parts:
        for unit in entries:
            try:
                yield from part(unit)
            except Exception:
                errors.append(InternalError(unit.display, "executing the program", _traceback()))
    if unfinished:
        yield from execution.unfinished


def descriptions(program: Program, errors: list[InternalError]) -> Iterator[list[str]]:
    """What every training run does, in lines of text."""
    for run in runs(program, errors, unfinished=True):
        try:
            yield described(run)
        except Exception:
            errors.append(InternalError(run.entry.path, "describing the run", _traceback()))


def _findings(run: TrainingRun, rules: Sequence[Entry], errors: list[InternalError]) -> list[Finding]:
    """What the rules find in a run. The failure of a rule costs the findings of that rule."""
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


class _Comments:
    """The ignore comments of files. A file whose comments cannot be read has none, and that is an error."""

    def __init__(self, program: Program, errors: list[InternalError]) -> None:
        self._program = program
        self._errors = errors
        self._failed: set[Unit] = set()

    def of(self, path: str) -> Sequence[Ignore]:
        return self.of_unit(self._program.unit(pathlib.Path(path)))

    def of_unit(self, unit: Unit) -> Sequence[Ignore]:
        if unit in self._failed:
            return ()
        try:
            return unit.ignores
        except Exception:
            self._failed.add(unit)
            self._errors.append(InternalError(unit.display, "reading the comments", _traceback()))
            return ()


def _complaints(
    program: Program,
    comments: _Comments,
    used: set[tuple[Ignore, str]],
    registry: Registry,
    counts: Callable[[str, str], bool],
) -> Iterator[Finding]:
    """A finding for each name in an ignore comment that is no rule's, or a rule's that had nothing to silence there.

    Only the selected files are held to it, and only the rules in force: the others had no chance to find anything.
    """
    unknown, unused = registry.rule(UNKNOWN_RULE), registry.rule(UNUSED_SUPPRESSION)
    for unit in program.units:
        for ignore in comments.of_unit(unit):
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
