"""DP901: an ignore comment silences nothing."""

from dpcheck.rule import Group, Rule, Severity

RULE = Rule(
    "DP901",
    "unused-suppression",
    Group.HYGIENE,
    Severity.WARNING,
    "an ignore comment silences nothing",
)
