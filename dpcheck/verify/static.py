"""What the static rules find in the script that is verified."""

from __future__ import annotations

import pathlib

from dpcheck import config, registry
from dpcheck.check import link, merge, runs
from dpcheck.findings.finding import Finding
from dpcheck.rule import Confidence
from dpcheck.verify.options import Options


def static_findings(options: Options) -> list[Finding]:
    """The findings of the rules in force and of the pedantic ones, in every file that the script reaches.

    Doubtful findings are left out. Comments that ignore a finding do not count here: the run may confirm what they
    silence. A script that cannot be read statically has no findings: its run speaks for itself.
    """
    script = _file_of(options)
    if script is None:
        return []
    settings = config.load(options.directory)
    known = registry.load()
    in_force = known.choose(settings.selectors, pedantic=True)
    _, program = link([script], settings)
    found: list[Finding] = []
    for run in runs(program, []):
        for entry in known.entries:
            if entry.check is not None and entry.rule.code in in_force:
                found += entry.check(run)
    program.save()
    return [finding for finding in merge(found) if finding.confidence is not Confidence.LOW]


def _file_of(options: Options) -> pathlib.Path | None:
    if not options.module:
        return options.directory / options.script
    place = options.directory.joinpath(*options.script.split("."))
    for candidate in (place.with_suffix(".py"), place / "__main__.py"):
        if candidate.is_file():
            return candidate
    return None
