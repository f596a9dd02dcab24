"""What a rule is: a frozen description, and beside it one function over a training run."""

from __future__ import annotations

import dataclasses
import enum


class Group(enum.Enum):
    """The condition of the equivalence that a rule of the group sees broken."""

    WEIGHTS = 1
    DATA = 2
    OBJECTIVE = 3
    SYNC = 4
    COLLECTIVES = 5
    COUNTING = 6
    HYGIENE = 9


class Severity(enum.Enum):
    """error: wrong update, leak or hang; warning: a bounded effect; note: a matter of tuning or taste."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Confidence(enum.Enum):
    """high: shown from the code; medium: one step inferred; low: rests on a guess, hidden by default."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


@dataclasses.dataclass(frozen=True, slots=True)
class Rule:
    """`code` (DP301) and `name` (per-rank-mean) are fixed: suppressions and reports use them.

    `summary` is one line, lower case, without a full stop. A pedantic rule is off unless asked for.
    """

    code: str
    name: str
    group: Group
    severity: Severity
    summary: str
    pedantic: bool = False
