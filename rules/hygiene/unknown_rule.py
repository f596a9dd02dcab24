"""DP902: an ignore comment names no rule."""

from dpcheck.rule import Group, Rule, Severity

RULE = Rule(
    "DP902",
    "unknown-rule",
    Group.HYGIENE,
    Severity.WARNING,
    "an ignore comment names a rule that does not exist",
)
