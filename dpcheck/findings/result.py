"""What a check hands over: the findings, what was counted, and what went wrong."""

from __future__ import annotations

import dataclasses

from dpcheck.findings.finding import Finding


@dataclasses.dataclass(frozen=True, slots=True)
class InternalError:
    """A fault of dpcheck itself while it worked on the entry file `path`; the results of other files stand."""

    path: str
    doing: str
    traceback: str


@dataclasses.dataclass(frozen=True, slots=True)
class Result:
    """Findings in the order of their places. `files` counts the selected files, `unreadable` those among them
    that could not be read or parsed. `missing` are the paths asked for that do not exist, `irregular` those that are
    devices or pipes, `unlisted` the folders that cannot be looked into.
    """

    findings: tuple[Finding, ...]
    files: int
    suppressed: int = 0
    baselined: int = 0
    unreadable: int = 0
    missing: tuple[str, ...] = ()
    irregular: tuple[str, ...] = ()
    unlisted: tuple[str, ...] = ()
    errors: tuple[InternalError, ...] = ()
    seconds: float = 0.0
